"""The alert rules and the dashboard speak of figures that exist, and Prometheus understands them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from bridge.watch import metrics, promises
from tests.rules.tree import ROOT
from tests.support.builders import make_call, make_settings
from tests.support.house import House

RULES, DASHBOARD, PAGE = (ROOT / "docs" / name for name in ("alert-rules.yml", "grafana-dashboard.json", "alerts.md"))
_METRIC = re.compile(r"\bcallbridge_[a-z_]+\b")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: package `prometheus`)")


@pytest.fixture(scope="module")
def known(redis_server) -> set[str]:
    """The names of all samples, as a scrape has them."""
    connection = redis.Redis.from_url(redis_server.url)
    connection.flushall()
    house = House(connection)
    house.accept(make_call())
    page = metrics.render(house.store, 0, promises.processes(make_settings()), 5).decode()
    connection.close()
    families = list(text_string_to_metric_families(page))
    counters = {f"{family.name}_total" for family in families if family.type == "counter"}
    histograms = {f"{family.name}_{part}" for family in families if family.type == "histogram" for part in ("bucket", "count", "sum")}
    return counters | histograms | {family.name for family in families if family.type == "gauge"}


def expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_the_rules_and_the_dashboard_name_no_figure_that_is_gone(known: set[str]) -> None:
    used = set(_METRIC.findall(RULES.read_text(encoding="utf-8"))) | {name for text in expressions() for name in _METRIC.findall(text)}
    assert used - known == set()


def test_every_figure_stands_in_the_page_and_no_other(known: set[str]) -> None:
    told = set(_METRIC.findall(PAGE.read_text(encoding="utf-8")))
    assert told == {re.sub(r"(_seconds)_(bucket|count|sum)$", r"\1", name) for name in known}


def test_nothing_is_summed_over_web_processes_which_all_say_the_same() -> None:
    texts = [*expressions(), RULES.read_text(encoding="utf-8")]
    assert not [text for text in texts if re.search(r"sum(?: by \([^)]*\))? ?\((?!max)", text)]


def test_the_panels_do_not_lie_upon_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([shutil.which("promtool") or "", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_understands_the_rules() -> None:
    promtool("check", "rules", RULES)


@needs_promtool
def test_prometheus_understands_every_panel(tmp_path: Path) -> None:
    filled = (text.replace("$__rate_interval", "5m").replace("$process", "calls") for text in expressions())
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(filled)]
    path = tmp_path / "panels.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", path)


def exposed(house: House) -> dict[str, float]:
    """The counters without labels, as a scrape has them."""
    page = metrics.render(house.store, 0, promises.processes(make_settings())).decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    return {sample.name: sample.value for sample in samples if sample.name.endswith("_total") and not sample.labels}


ODD = ['quote " and \\ and\nline', "ünïcode", "a:b:c", "", "x" * 300, "{}", "a.b"]


@needs_promtool
def test_prometheus_takes_the_page_whatever_a_reason_is_called(connection: redis.Redis) -> None:
    house = House(connection)
    house.accept(make_call())
    house.run()
    house.store.count_many({f"{word}.{odd}": 1 for word in metrics._COUNTERS for odd in ODD} | {f"refused.twilio:{odd}": 2 for odd in ODD})
    page = metrics.render(house.store, 3, promises.processes(make_settings()), 5)
    done = subprocess.run([shutil.which("promtool") or "", "check", "metrics"], input=page, capture_output=True, check=False)
    assert done.returncode in {0, 3}, done.stdout + done.stderr  # 3: it would have named something otherwise
    names = [
        (sample.name, *sorted(sample.labels.items())) for one in text_string_to_metric_families(page.decode()) for sample in one.samples
    ]
    assert len(names) == len(set(names)), "two samples of one name and the same labels"


@needs_promtool
def test_a_fresh_deployment_whose_calls_all_fail_is_told_from_its_first_scrapes(connection: redis.Redis, tmp_path: Path) -> None:
    """The figures are those of the bridge itself: nothing yet, then fifty failures at once, and never a call that is done."""
    house = House(connection)
    before = exposed(house)
    for number in range(50):
        house.accept(make_call(root_id=f"CA{number}"))
    house.store.count_many({"parked": 50})
    after = exposed(house)
    given = [{"series": name, "values": f"{before[name]} {after[name]}+0x30"} for name in after if name in before]
    count = {"expr": 'count(ALERTS{alertname="CallbridgeFailures",alertstate="firing"})', "eval_time": "10m"}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [count | {"exp_samples": [{"labels": "{}", "value": 1}]}]}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}))
    promtool("test", "rules", path)


def series(text: str, values: str, labels: str = 'process="calls"') -> list[dict[str, str]]:
    """The same from two web processes."""
    return [{"series": f'{text}{{instance="{web}",{labels}}}', "values": values} for web in ("a", "b")]


QUIET = [
    *series("up", "1+0x80", 'job="callbridge"'),
    *series("callbridge_promise_bound_seconds", "60+0x80"),
    *series("callbridge_crm_daily_limit", "200000+0x80"),
]
# Rule, figures that break its promise, and minutes after which it must have fired.
BROKEN = {
    "CallbridgeDown": (series("up", "0+0x80", 'job="callbridge"'), 3),
    "CallbridgePromiseBroken": (series("callbridge_late_calls", "0 0 2+0x80"), 3),
    "CallbridgeLeadsSlow": (
        [
            *series("callbridge_lead_seconds_bucket", "0+1x80", 'process="calls",le="60"'),
            *series("callbridge_lead_seconds_bucket", "0+2x80", 'process="calls",le="120"'),
            *series("callbridge_lead_seconds_bucket", "0+2x80", 'process="calls",le="+Inf"'),
            *series("callbridge_lead_seconds_count", "0+2x80"),
        ],
        40,
    ),
    "CallbridgeFailures": ([*series("callbridge_parked_total", "0+1x80", ""), *series("callbridge_done_total", "0+4x80", "")], 60),
    "CallbridgeAttention": (series("callbridge_attention_calls", "1+0x80", 'process="calls",cause="uncertain"'), 20),
    "CallbridgeBudgetLow": (series("callbridge_crm_requests_left", "19999+0x80"), 5),
    "CallbridgeAttemptsCutShort": (series("callbridge_cut_short_attempts", "0 1+0x80", 'process="calls",how="timed_out"'), 5),
    "CallbridgeSilence": (series("callbridge_silent_seconds", "14401+0x800"), 12 * 60),
    "CallbridgeWorkersDie": (series("callbridge_worker_deaths_total", "0+1x80", ""), 20),
}


# Whoever has Prometheus and none of our own routes shall hear of the same.
RULE_OF = {
    promises.LATE: "CallbridgePromiseBroken",
    promises.SLOW: "CallbridgeLeadsSlow",
    promises.FAILURES: "CallbridgeFailures",
    promises.DIED: "CallbridgeAttemptsCutShort",
    promises.TIMED_OUT: "CallbridgeAttemptsCutShort",
    promises.BUDGET: "CallbridgeBudgetLow",
    promises.SILENCE: "CallbridgeSilence",
    **{cause: "CallbridgeAttention" for cause in promises.CAUSES if cause.startswith("attention.")},
}


def test_every_promise_has_a_rule_and_every_rule_is_tried() -> None:
    assert set(RULE_OF) == set(promises.CAUSES)
    rules = set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))
    assert set(RULE_OF.values()) <= rules
    assert set(BROKEN) == rules


@needs_promtool
@pytest.mark.parametrize("alert", BROKEN)
def test_a_rule_fires_once_for_all_web_processes_when_its_promise_is_broken_and_not_before(alert: str, tmp_path: Path) -> None:
    figures, minutes = BROKEN[alert]
    shown = [row for row in QUIET if not row["series"].startswith("up") or alert != "CallbridgeDown"]

    def case(given, at: str, fires: int) -> dict[str, object]:
        count = {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > 0', "eval_time": at}
        return {
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [count | {"exp_samples": fires * [{"labels": "{}", "value": 1}]}],
        }

    both = 2 if alert == "CallbridgeDown" else 1  # which of the processes is down is worth knowing
    tests = [case(QUIET, f"{minutes}m", 0), case([*shown, *figures], f"{minutes}m", 1)]
    tests[1]["promql_expr_test"][0]["exp_samples"][0]["value"] = both
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests}))
    promtool("test", "rules", path)

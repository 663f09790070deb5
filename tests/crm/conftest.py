import pytest

from bridge.crm.gohighlevel import GoHighLevel
from bridge.crm.http import Timeouts
from bridge.crm.location_cache import LocationCache
from bridge.crm.pacing import Pacing
from tests.crm.scripted import ScriptedServer

TIMEOUTS = Timeouts(connect_s=0.4, read_s=0.6)


@pytest.fixture
def server():
    server = ScriptedServer()
    yield server
    server.stop()


@pytest.fixture
def pacing(connection):
    return Pacing(connection)


@pytest.fixture
def crm(server, connection, pacing):
    crm = GoHighLevel(
        base_url=server.url,
        token="pit-test",
        location_id="loc1",
        timeouts=TIMEOUTS,
        pacing=pacing,
        cache=LocationCache(connection),
    )
    yield crm
    crm.close()

// Keeps the parts of a page that are marked with data-live up to date. Without it the page is the same, only not live.
"use strict";

for (const part of document.querySelectorAll("[data-live]")) keepLive(part);

function keepLive(part) {
  const every = Number(part.dataset.every) * 1000;
  const seen = part.querySelector("[data-seen]")?.dataset.seen;
  let failures = 0;

  async function look() {
    if (document.visibilityState === "visible") {
      try {
        const answer = await fetch(part.dataset.live, { headers: { "X-Live": "1" }, redirect: "error" });
        if (answer.status === 401) return location.reload();  // logged out: the login leads back here
        if (!answer.ok) throw new Error(String(answer.status));
        show(await answer.text());
        failures = 0;
      } catch {
        failures += 1;
        part.classList.add("stale");
        note(", not live: the console does not answer");
      }
    }
    setTimeout(look, every * Math.min(2 ** failures, 12));
  }

  function show(html) {
    part.classList.remove("stale");
    const open = [...part.querySelectorAll("details")].map((one) => one.open);
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    if (html !== part.dataset.shown) part.innerHTML = html;
    part.dataset.shown = html;
    part.querySelectorAll("details").forEach((one, place) => { one.open = Boolean(open[place]); });
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    const moved = document.querySelector("[data-moved]");
    if (moved) moved.hidden = part.querySelector("[data-seen]")?.dataset.seen === seen;  // its buttons would be declined
    note(", live");
  }

  function note(text) {
    const place = part.querySelector("[data-live-note]");
    if (place) place.textContent = text;
  }

  setTimeout(look, every);
}

// A bulk action that one request could not finish goes on by itself, as if its button were pressed.
const further = document.querySelector("form[data-go-on]");
if (further) setTimeout(() => further.requestSubmit(), 1000);
if (document.querySelector("[data-busy]")) setTimeout(() => location.reload(), 2000);

// A form that is sent twice by an impatient finger would only hear that the call has moved on.
document.addEventListener("submit", (event) => {
  if (event.target.method === "post") for (const one of event.target.querySelectorAll("button")) one.disabled = true;
});
window.addEventListener("pageshow", () => document.querySelectorAll("button[disabled]").forEach((one) => { one.disabled = false; }));

// Every page works without this script. It refreshes the page, and adds keys.
(() => {
"use strict";
const html = document.documentElement, every = 3000;
const $ = (what, within = document) => within.querySelector(what);
const all = (what, within = document) => [...within.querySelectorAll(what)];
html.classList.add("js");

// ---- times ----
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
function relative(time) {
  const past = Math.trunc((Date.now() - new Date(time.dateTime)) / 1000), far = Math.abs(past);
  if (far >= 2592000) return;
  const [unit, name] = units.find(([unit]) => far >= unit) || units[3];
  const text = Math.floor(far / unit) + " " + name;
  const told = past < 0 ? "in " + text : text + " ago";
  if (time.textContent !== told) time.textContent = told;
}
const tell = () => all("time").forEach(relative);

// ---- refresh ----
// What is the same stays the same node: so focus, scroll, open details and checked rows stay as well.
// not `node.id`: a form with fields named `id` answers with these
const key = node => node.nodeType === 1 && (node.getAttribute("id") || node.getAttribute("data-k")) || "";
const field = { INPUT: 1, TEXTAREA: 1, SELECT: 1 };
function morph(old, now) {
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || key(old) !== key(now)) {
    old.replaceWith(now.cloneNode(true));
    return;
  }
  if (old.nodeType !== 1) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  if (field[old.nodeName]) return;
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes])
    if (!now.hasAttribute(name) && name !== "open" && name !== "tabindex") old.removeAttribute(name);
  const wanted = new Set([...now.childNodes].map(key)), kept = {};
  for (const child of old.childNodes) if (key(child)) kept[key(child)] = child;
  let at = old.firstChild;
  for (const child of [...now.childNodes]) {
    while (at && key(at) && !wanted.has(key(at))) { const gone = at; at = at.nextSibling; gone.remove(); }
    const id = key(child), same = id ? kept[id] : at && !key(at) ? at : null;
    if (!same) { old.insertBefore(child.cloneNode(true), at); continue; }
    if (same === at) at = at.nextSibling; else old.insertBefore(same, at);
    morph(same, child);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

let tag = "", live = "live" in html.dataset, timer = 0, polling = false;
const busy = () => {
  const on = document.activeElement, chosen = getSelection();
  return document.hidden || polling || $("dialog[open]") || all("tbody :checked").length > 0 ||
    on && (on.nodeName === "TEXTAREA" || on.nodeName === "SELECT" || on.nodeName === "INPUT" && on.type !== "checkbox") ||
    chosen && chosen.type === "Range";
};
function later() { clearTimeout(timer); if (live) timer = setTimeout(poll, every); }
async function poll() {
  if (!live) return;
  if (busy()) return later();
  polling = true;
  try {
    const answer = await fetch(location.href, { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
    if (answer.status === 200 && live && !document.hidden) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if ("live" in page.documentElement.dataset) {
        tag = answer.headers.get("ETag") || "";
        document.title = page.title;
        morph($("nav"), $("nav", page));
        morph($("main"), $("main", page));
        html.toggleAttribute("data-instance", false);
        if (page.documentElement.dataset.instance) html.dataset.instance = page.documentElement.dataset.instance;
      }
    } else if (answer.status !== 304 && answer.status < 500) toggle();
    if (answer.status < 400) {
      $("#at").dateTime = new Date().toISOString();
      $("#at").title = new Date().toISOString();
    }
  } catch { /* the last page stays; the time beside "as of" tells how old it is */ }
  polling = false;
  tell();
  later();
}
const button = $("#live");
function toggle() {
  live = !live;
  button.setAttribute("aria-pressed", live);
  button.textContent = live ? "Live" : "Stopped";
  button.classList.toggle("running", live);
  button.classList.toggle("paused", !live);
  if (live) poll(); else clearTimeout(timer);
}
if (button) {
  button.addEventListener("click", toggle);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  later();
}
setInterval(() => { if (!document.hidden && getSelection().type !== "Range") tell(); }, 1000);

// ---- keys ----
// Enter confirms a plan. On a phone, the focus would hide what is confirmed.
if (innerWidth > 800 && $("[data-focus]")) $("[data-focus]").focus();
const rows = () => all("main [data-k]").filter(row => $("a,button", row));
const here = () => document.activeElement && document.activeElement.closest("main [data-k]");
function move(by) {
  const found = rows(), at = found.indexOf(here());
  const row = found[at < 0 ? (by > 0 ? 0 : found.length - 1) : Math.min(Math.max(at + by, 0), found.length - 1)];
  if (!row) return;
  $("a,button", row).focus();
  row.scrollIntoView({ block: "nearest" });
}
function press(name) {
  const what = `[aria-keyshortcuts="${CSS.escape(name)}"]`, row = here();
  // that of the row, of the whole page, or of the first row
  const found = row && $(what, row) || all(what).find(it => !it.closest("main [data-k]")) || $(what);
  if (!found && name === "w" && row) { $("a", row).click(); return true; }
  if (!found) return false;
  const bar = found.closest(".bar");
  if (bar && row && !$("tbody :checked")) { const box = $("[type=checkbox]", row); if (box) box.checked = true; }
  if (found.nodeName === "INPUT") { found.focus(); found.select(); } else found.click();
  return true;
}
async function help() {
  const link = $('[aria-keyshortcuts="?"]'), open = $("dialog[open]");
  if (open) return open.close();
  try {
    const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), "text/html");
    const box = document.body.appendChild(document.createElement("dialog"));
    box.setAttribute("aria-label", "Keys");
    box.append(document.importNode($("#keys", page), true));
    box.addEventListener("close", () => box.remove());
    box.addEventListener("click", event => { if (event.target === box) box.close(); });
    box.showModal();
  } catch { location.href = link.href; }
}
let before = "";
document.addEventListener("keydown", event => {
  const on = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (field[on.nodeName] && on.type !== "checkbox" && on.type !== "radio") {
    if (event.key === "Escape") on.blur();
    return;
  }
  const first = before, name = event.key;
  before = "";
  let done = true;
  if (name === "?") help();
  else if ($("dialog[open]")) return;
  else if (first === "g") done = press("g " + name);
  else if (name === "g") { before = "g"; setTimeout(() => { before = ""; }, 1500); }
  else if (name === "j" || name === "k") move(name === "j" ? 1 : -1);
  else if (name === "x") { const row = here(), box = row && $("[type=checkbox]", row); if (box) box.click(); }
  else if (name === "X") {
    const boxes = all("tbody [type=checkbox]"), on = boxes.some(box => !box.checked);
    boxes.forEach(box => { box.checked = on; });
  } else if (/^[a-zA-Z0-9./]$/.test(name)) done = press(name);
  else done = false;
  if (done) event.preventDefault();
});
})();

// What the pages do by themselves in a browser. Every page works without it.
//
//   parts    <section id=… data-refresh=5> is asked for again every 5 s; nothing old is shown as new
//   charts   <figure data-chart='{"x": […], "series": […]}'> is drawn
//   tails    <pre data-follow> shows its end, as long as nobody has scrolled up
//   keys     j, k, / and the others; they can be switched off, and never act while somebody writes
//
// Texts come from the page, which is translated; nothing is evaluated, nothing is put in as markup.
"use strict";

const first = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

/** What one browser remembers; without storage (a private window) it is as at first. */
const memory = {
  get(name) {
    try { return localStorage.getItem(`supervisor.${name}`); } catch { return null; }
  },
  set(name, value) {
    try { localStorage.setItem(`supervisor.${name}`, value); } catch { /* it is not remembered */ }
  },
};

// --- parts that are asked for again -----------------------------------------------------------

/** A moment. One clock of a computer is set back by people, the other may stand still as it sleeps. */
const moment = (secondsAgo = 0) => [Date.now(), performance.now()].map((at) => at - 1000 * secondsAgo);
const secondsSince = (then) => Math.max(...moment().map((at, one) => at - then[one])) / 1000;

/** Seconds since this page was asked for: so old may be what it shows. */
function loadingTook() {
  const asked = performance.getEntriesByType("navigation")[0];
  return asked ? (performance.now() - asked.requestStart) / 1000 : 0;
}

const freshness = {
  bar: first("#freshness"),
  shownAt: moment(loadingTook() + Number(first("#freshness")?.dataset.age || 0)),
  askedAt: moment(),
  isAsking: false,
  acts: 0, // how many were answered: what was asked for before shows less than they did
  isPaused: memory.get("paused") === "yes",
  problem: "",
  failures: 0,

  parts() { return all("main [data-refresh][id]"); },

  /** Seconds between two askings; more while nobody answers. */
  period() {
    const soonest = Math.min(...this.parts().map((part) => Number(part.dataset.refresh) || 5));
    return Math.max(1, Math.min(30, soonest * 2 ** this.failures));
  },

  ask() {
    const parts = this.parts();
    if (this.isAsking || !parts.length) return;
    this.isAsking = true;
    this.askedAt = moment();
    this.actsThen = this.acts;
    const end = () => { this.isAsking = false; this.tell(); };
    htmx.ajax("GET", location.pathname + location.search, {
      source: this.bar, target: this.bar, swap: "none",
    }).then(end, end); // why there was no answer is told by an event
  },

  /** Look at an answer, and show of it what may be shown. */
  judge(event) {
    const { xhr } = event.detail;
    event.detail.shouldSwap = false;
    if (this.acts !== this.actsThen) return;
    const path = new URL(xhr.responseURL || location.href).pathname;
    if (path !== location.pathname) { location.reload(); return; }
    const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
    const parts = this.parts();
    const isWhole = parts.every((part) => page.getElementById(part.id));
    if (xhr.status === 404) this.fail(this.bar.dataset.gone);
    else if (xhr.status !== 200) this.fail(this.bar.dataset.refused.replace("{code}", xhr.status));
    else if (!isWhole) this.fail(this.bar.dataset.changed);
    else {
      for (const part of parts) replace(part, page.getElementById(part.id));
      this.show(page, this.askedAt);
    }
  },

  /** Take over how old an answer is: as old as it says, from when it was asked for. */
  show(page, askedAt) {
    const age = first("#freshness", page)?.dataset.age;
    this.shownAt = moment(secondsSince(askedAt) + Number(age || 0));
    this.failures = 0;
    this.problem = "";
  },

  fail(why) {
    this.failures = Math.min(this.failures + 1, 5);
    this.problem = why;
  },

  /** Say how old what is shown is, and why it gets no younger. */
  tell() {
    if (!this.bar) return;
    const { dataset } = this.bar;
    this.bar.hidden = !this.parts().length;
    const passed = Math.round(secondsSince(this.shownAt));
    const age = passed < 100
      ? dataset.seconds.replace("{n}", passed)
      : dataset.minutes.replace("{n}", Math.round(passed / 60));
    const how = this.problem || (this.isPaused ? dataset.paused : "");
    const text = how ? dataset.old.replace("{why}", how) : dataset.fresh;
    first(".told", this.bar).textContent = text.replace("{age}", age);
    const said = first("[role=status]", this.bar);
    if (said.textContent !== how) said.textContent = how; // spoken when it changes, not every second
    const button = first("button", this.bar);
    button.textContent = this.isPaused ? dataset.go : dataset.pause;
    button.setAttribute("aria-pressed", String(this.isPaused));
    const isLate = passed > 3 * this.period() + 2;
    document.body.classList.toggle("stale", !this.bar.hidden && Boolean(this.problem || isLate));
  },

  pause(isPaused) {
    this.isPaused = isPaused;
    memory.set("paused", isPaused ? "yes" : "no");
    if (isPaused) this.tell(); else this.ask();
  },

  turn() {
    const isDue = secondsSince(this.askedAt) >= this.period();
    if (isDue && !this.isPaused && !document.hidden) this.ask();
    this.tell();
  },

  begin() {
    if (!this.bar || !window.htmx) return;
    const lost = () => this.fail(this.bar.dataset.lost);
    this.bar.addEventListener("htmx:beforeSwap", (event) => this.judge(event));
    for (const name of ["htmx:sendError", "htmx:timeout"]) this.bar.addEventListener(name, lost);
    first("button", this.bar).addEventListener("click", () => this.pause(!this.isPaused));
    document.addEventListener("visibilitychange", () => this.turn());
    window.addEventListener("pageshow", (event) => { if (event.persisted) this.ask(); });
    setInterval(() => this.turn(), 1000);
    this.tell();
  },
};

/** What somebody has opened, chosen or begun to write stays where it is. */
const theirs = {
  beforeNodeRemoved: (node) => !node.classList?.contains("plot"),
  beforeAttributeUpdated(name, node) {
    if (name === "open") return !(node instanceof HTMLDetailsElement);
    if (name === "value" && "defaultValue" in node) return node.value === node.defaultValue;
    if (name === "checked") return node.checked === node.defaultChecked;
    return true;
  },
};

/** Give each row a name: a row that comes between moves no field to a row that is another one. */
function nameRows(part) {
  const named = new Map();
  for (const row of all("tbody tr, [data-row]", part)) {
    const what = first("a[href]", row)?.getAttribute("href") || row.firstElementChild?.textContent.trim();
    const table = all("tbody", part).indexOf(row.closest("tbody"));
    const count = (named.get(`${table} ${what}`) || 0) + 1;
    named.set(`${table} ${what}`, count);
    row.id ||= `row ${part.id} ${table} ${what} ${count}`;
  }
}

/** Make a part of the page what the site says of it now. */
function replace(part, now) {
  for (const one of [part, now]) nameRows(one);
  Idiomorph.morph(part, now, { morphStyle: "outerHTML", callbacks: theirs });
  const put = document.getElementById(part.id);
  htmx.process(put);
  charts.draw();
  tails.follow();
}

/** An act was sent and no answer came: it may have been done or not. */
function sayUnsure() {
  const said = document.createElement("p");
  said.className = "flash problem";
  said.setAttribute("role", "alert");
  said.textContent = freshness.bar.dataset.unsure;
  first("#main").prepend(said);
  said.scrollIntoView({ block: "nearest" });
}

/** An act is answered by the page it was asked on, shown in place, or by the address of another. */
function followActs() {
  document.addEventListener("htmx:beforeSend", ({ detail }) => { detail.xhr.askedAt = moment(); });
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event;
    if (!detail.boosted) return;
    detail.shouldSwap = false;
    const page = new DOMParser().parseFromString(detail.xhr.responseText, "text/html");
    const main = first("#main", page);
    if (main && detail.xhr.status < 500) {
      if (detail.xhr.status < 400) detail.requestConfig.elt.reset(); // what was asked is done
      freshness.acts += 1;
      replace(first("#main"), main);
      freshness.show(page, detail.xhr.askedAt);
      if (document.activeElement === document.body) first("#main").focus({ preventScroll: true });
      first("main .flash, main h1")?.scrollIntoView({ block: "nearest" });
    } else sayUnsure();
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => { if (event.target !== freshness.bar) sayUnsure(); });
  }
}

// --- charts -----------------------------------------------------------------------------------

const charts = {
  drawn: new WeakMap(),

  /** Draw what is new or has changed. */
  draw(isAnew = false) {
    if (!window.uPlot) return;
    for (const figure of all("figure[data-chart]")) {
      const known = this.drawn.get(figure);
      if (known && known.text === figure.dataset.chart && !isAnew) continue;
      known?.plot.destroy();
      const place = first(".plot", figure) || figure.insertBefore(document.createElement("div"), figure.firstChild);
      place.className = "plot";
      place.setAttribute("aria-hidden", "true"); // the same numbers stand beside it
      const given = JSON.parse(figure.dataset.chart);
      const plot = new uPlot(this.options(given, figure), this.rows(given), place);
      this.drawn.set(figure, { text: figure.dataset.chart, plot });
      if (!known) new ResizeObserver(() => this.fit(figure)).observe(figure);
    }
  },

  rows: (given) => [given.x, ...given.series.map((one) => one.values)],

  fit(figure) {
    const { plot } = this.drawn.get(figure);
    const width = Math.floor(figure.clientWidth);
    if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
  },

  options(given, figure) {
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const axis = { stroke: color("dim"), grid: { stroke: color("rule"), width: 1 }, ticks: { stroke: color("rule") } };
    const shown = (value) => (value === null || value === undefined ? "–" : this.amount(value, given.unit));
    return {
      width: Math.max(200, Math.floor(figure.clientWidth)),
      height: given.height || 180,
      tzDate: (seconds) => uPlot.tzDate(new Date(1000 * seconds), "Etc/UTC"),
      legend: { markers: { width: 0, fill: (plot, at) => plot.series[at].stroke() } },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? 1.1 * most : 1] } },
      axes: [{ ...axis, values: (_, ticks) => this.times(ticks) }, { ...axis, size: 62, values: (_, ticks) => ticks.map(shown) }],
      series: [
        { label: figure.dataset.time || "UTC", value: "{HH}:{mm}:{ss}" },
        ...given.series.map((one, at) => ({
          label: one.label,
          stroke: color(one.tone || ["live", "new", "good", "hot", "dim"][at % 5]),
          dash: at ? [6, 3 * at] : undefined, // told apart without colours as well
          width: 2,
          points: { show: false },
          value: (_, value) => shown(value),
        })),
      ],
    };
  },

  /** Times of a day; the day itself where it changes. */
  times(ticks) {
    const text = (seconds) => new Date(1000 * seconds).toISOString();
    return ticks.map((seconds, at) => {
      const isNewDay = at > 0 && text(seconds).slice(0, 10) !== text(ticks[at - 1]).slice(0, 10);
      const clock = text(seconds).slice(11, seconds % 60 ? 19 : 16);
      return isNewDay ? `${clock}\n${text(seconds).slice(0, 10)}` : clock;
    });
  },

  amount(value, unit) {
    if (unit === "bytes") {
      const step = Math.min(4, value > 0 ? Math.floor(Math.log2(value) / 10) : 0);
      return `${(value / 1024 ** step).toFixed(step ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
    }
    if (unit === "ratio") return `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
    const text = Number.isInteger(value) || Math.abs(value) >= 1000 ? Math.round(value).toLocaleString() : String(Number(value.toPrecision(3)));
    return unit ? `${text} ${unit}` : text;
  },
};

// --- keys -------------------------------------------------------------------------------------

const keys = {
  dialog: first("#keys"),
  isGoing: false,

  isOn: () => memory.get("keys") !== "off",

  rows: () => all("main tbody tr, main [data-row]").map((row) => first("a[href]", row)).filter(Boolean),

  /** Go on to the next row, or back to the one before. */
  step(by) {
    const links = this.rows();
    const row = document.activeElement?.closest("tr, [data-row]");
    const at = links.findIndex((link) => row?.contains(link));
    const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  },

  find() {
    const field = first("main [data-find]") || first("main input[type=search], main input[name=find]");
    if (field) { field.focus(); field.select?.(); } else this.go(first("[data-find-page]"));
  },

  go: (link) => { if (link) location.assign(link.href); },

  choose() {
    const box = first("input[type=checkbox]", document.activeElement?.closest("tr, [data-row]") || undefined);
    if (box && document.activeElement?.closest("tr, [data-row]")) box.click();
  },

  /** List the keys that do something on this page as it is now. */
  list() {
    for (const key of all("[data-needs]", this.dialog)) {
      key.hidden = key.nextElementSibling.hidden = !first(key.dataset.needs);
    }
    this.dialog.showModal();
  },

  acts: {
    "/": () => keys.find(),
    "?": () => keys.list(),
    j: () => keys.step(1),
    k: () => keys.step(-1),
    x: () => keys.choose(),
    r: () => (freshness.parts().length ? freshness.ask() : location.reload()),
    p: () => freshness.pause(!freshness.isPaused),
    n: () => keys.go(first("a[rel=next]")),
  },

  press(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (this.dialog.open || (!this.isOn() && event.key !== "?")) return;
    if (this.isGoing) {
      this.isGoing = false;
      const link = all("[data-key]").find((one) => one.dataset.key === event.key);
      if (link) { event.preventDefault(); this.go(link); }
      return;
    }
    if (event.key === "g") {
      this.isGoing = true;
      setTimeout(() => { this.isGoing = false; }, 1500);
    } else if (Object.hasOwn(this.acts, event.key)) {
      event.preventDefault();
      this.acts[event.key]();
    }
  },

  begin() {
    if (!this.dialog) return;
    document.addEventListener("keydown", (event) => this.press(event));
    const button = first("#show-keys");
    button.hidden = false;
    button.addEventListener("click", () => this.list());
    const choice = first("input[type=checkbox]", this.dialog);
    choice.checked = this.isOn();
    choice.addEventListener("change", () => memory.set("keys", choice.checked ? "on" : "off"));
  },
};

// --- the end of an output ---------------------------------------------------------------------

/** Whoever looks at the end of <pre data-follow> goes on to see its end; who has scrolled up stays. */
const tails = {
  isLeft: new WeakSet(),

  follow() {
    for (const tail of all("pre[data-follow]")) if (!this.isLeft.has(tail)) tail.scrollTop = tail.scrollHeight;
  },

  begin() {
    document.addEventListener("scroll", ({ target }) => {
      if (!target.matches?.("pre[data-follow]")) return;
      const isAtEnd = target.scrollTop + target.clientHeight >= target.scrollHeight - 20;
      this.isLeft[isAtEnd ? "delete" : "add"](target);
    }, true);
    this.follow();
  },
};

/** A page that found no store is asked for again until it is there, without anybody's scrolling. */
function tryAgain() {
  const seconds = Number(document.body.dataset.again);
  if (!seconds) return;
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href).catch(() => null);
    if (answer && answer.status !== 503) location.reload();
  }, 1000 * seconds);
}

// --- begin ------------------------------------------------------------------------------------

followActs();
freshness.begin();
tryAgain();
keys.begin();
tails.begin();
charts.draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.draw(true));

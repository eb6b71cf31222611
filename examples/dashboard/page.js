// Draws what /events sends. Names come from the database: they are set as text, never as HTML.

const WINDOW = 60; // seconds that the chart shows
const PARTS = ["delivered", "under-way", "failed"];
const points = []; // {at, requested, delivered, under-way, failed}: what was received so far
let counts = null;

const byId = (id) => document.getElementById(id);
const whole = (number) => number.toLocaleString("en");
const signed = (number) => (number > 0 ? "+" : number < 0 ? "−" : "±") + whole(Math.abs(number));

/** Return a total's parts by name; what is neither delivered nor failed is under way. */
function parts(total) {
  const { requested, delivered, failed } = total;
  return { requested, delivered, failed, "under-way": requested - delivered - failed };
}

/** Make the list have a row per name, in this order, and return the rows' elements. */
function rows(list, names) {
  const known = new Map([...list.children].map((row) => [row.dataset.name, row]));
  const wanted = names.map((name) => known.get(name) ?? newRow(name));
  if (wanted.some((row, place) => list.children[place] !== row) || known.size > wanted.length) {
    list.replaceChildren(...wanted);
  }
  return wanted;
}

function newRow(name) {
  const row = document.createElement("div");
  row.className = "row";
  row.dataset.name = name;
  row.append(...["name", "bar", "number"].map((part) => {
    const element = document.createElement("div");
    element.className = part;
    return element;
  }));
  row.children[0].textContent = name;
  return row;
}

/** Draw a bar of parts, [[class, number], …], as long as their share of the largest. */
function drawBar(row, drawn, largest) {
  const [, bar, number] = row.children;
  while (bar.children.length < drawn.length) bar.append(document.createElement("i"));
  drawn.forEach(([part, count], place) => {
    bar.children[place].className = part;
    bar.children[place].style.width = `${(100 * Math.max(count, 0)) / Math.max(largest, 1)}%`;
  });
  number.textContent = whole(drawn.reduce((sum, [, count]) => sum + count, 0));
}

function drawTotals(list, totals) {
  const largest = Math.max(...totals.map((total) => total.requested));
  const found = rows(list, totals.map((total) => total.id));
  totals.forEach((total, place) => {
    const of = parts(total);
    drawBar(found[place], PARTS.map((part) => [part, of[part]]), largest);
  });
  return found;
}

function drawServices(services) {
  drawTotals(byId("services"), services).forEach((row, place) => {
    const link = row.querySelector("a") ?? document.createElement("a");
    link.href = `services/${row.dataset.name}`;
    link.title = row.dataset.name;
    link.textContent = services[place].name;
    if (!link.parentNode) row.children[0].replaceChildren(link);
  });
}

function drawTiles(first, last) {
  for (const part of ["requested", ...PARTS]) {
    byId(part).textContent = whole(last[part]);
    const share = (100 * last[part]) / Math.max(last.requested, 1);
    byId(`${part}-note`).textContent =
      part === "requested" ? `${signed(last[part] - first[part])} in a minute` : `${share.toFixed(1)} %`;
  }
}

function svg(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** Return the whole numbers of the axis, about four, from at most `low` to at least `high`; one where nothing moved. */
function ticks(low, high) {
  if (low === high) return [low];
  const rough = Math.max(high - low, 4) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const found = [];
  for (let at = Math.floor(low / step); at <= Math.ceil(high / step); at++) found.push(at * step);
  return found;
}

/** Draw how each part has changed since the window's first point. */
function drawChart(first, now) {
  const chart = byId("chart");
  const { width, height } = chart.getBoundingClientRect();
  const changes = points.map((point) => PARTS.map((part) => point[part] - first[part]));
  const axis = ticks(Math.min(0, ...changes.flat()), Math.max(0, ...changes.flat()));
  const [low, high] = [axis[0], axis.at(-1)];
  const longest = Math.max(...axis.map((tick) => signed(tick).length));
  const [left, right, top, bottom] = [8 * longest + 10, width - 8, 8, height - 24];
  const x = (at) => left + (right - left) * Math.max(0, 1 - (now - at) / WINDOW);
  // Where nothing moved, the line at zero lies in the middle.
  const y = (change) => (low === high ? (top + bottom) / 2 : bottom - ((bottom - top) * (change - low)) / (high - low));
  const drawn = [];
  for (const tick of axis) {
    drawn.push(svg("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
    drawn.push(svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, signed(tick)));
  }
  for (const ago of [WINDOW, WINDOW / 2, 0]) {
    const anchor = ago === WINDOW ? "start" : ago ? "middle" : "end";
    const text = ago ? `${ago} s ago` : "now";
    drawn.push(svg("text", { x: x(now - ago), y: height - 4, "text-anchor": anchor }, text));
  }
  PARTS.forEach((part, place) => {
    // A count stays until the next one comes: steps, no slopes.
    const line = points.flatMap((point, index) => [
      `${x(point.at)},${y(changes[Math.max(index - 1, 0)][place])}`,
      `${x(point.at)},${y(changes[index][place])}`,
    ]);
    line.push(`${right},${y(changes.at(-1)[place])}`);
    drawn.push(svg("polyline", { class: part, points: line.join(" ") }));
  });
  chart.replaceChildren(...drawn);
}

function draw() {
  if (!counts) return;
  const now = performance.now() / 1000;
  while (points.length > 1 && points[1].at < now - WINDOW) points.shift();
  drawTiles(points[0], points.at(-1));
  drawChart(points[0], now);
}

/** Return a length of time as a person reads it. */
function duration(seconds) {
  if (seconds >= 86400) return `${(seconds / 86400).toFixed(1)} d`;
  if (seconds >= 3600) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 60) return `${(seconds / 60).toFixed(1)} min`;
  return `${Math.max(seconds, 0).toFixed(seconds < 10 ? 1 : 0)} s`;
}

/** Show as of when the numbers are exact; the server says whether that is fresh, late or stale. */
function heard({ age, freshness }) {
  byId("state").className = freshness;
  byId("state").textContent = age === null ? "nothing applied yet" : `as of ${duration(age)} ago`;
}

function receive(event) {
  counts = JSON.parse(event.data);
  const total = (name) => counts.types.reduce((sum, type) => sum + type[name], 0);
  const sums = { requested: total("requested"), delivered: total("delivered"), failed: total("failed") };
  points.push({ at: performance.now() / 1000, ...parts(sums) });
  // Cancelled ones are not requested.
  drawTotals(byId("statuses"), counts.statuses.map((status) => ({ ...status, requested: status.count })));
  drawTotals(byId("types"), counts.types);
  drawServices(counts.services);
  draw();
}

const events = new EventSource("events"); // it connects again by itself
events.onmessage = receive;
const stale = (why) => () => {
  byId("state").className = "";
  byId("state").textContent = `${why}, trying again`;
};
events.onerror = stale("no connection");
events.addEventListener("age", (event) => heard(JSON.parse(event.data)));
events.addEventListener("gone", stale("the database does not answer"));
setInterval(draw, 1000);
addEventListener("resize", draw);

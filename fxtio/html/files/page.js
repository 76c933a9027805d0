"use strict";

// Makes the tables of the page sortable and searchable, and draws its charts and flame graphs.  Texts and numbers are
// formatted already.  They may come from an attacker: they are moved as nodes or set as text, never parsed as HTML.

const FIRST_ROWS = 20; // so many rows are shown until more are asked for
const SEARCHED_ROWS = 10; // a table with more rows than this can be searched
const CHART_HEIGHT = 200;

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const counted = (number) => number.toLocaleString("en-US");

function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// ---------------------------------------------------------------------------------------------------------- tables

function makeTable(grid) {
  const body = grid.querySelector("tbody");
  const rows = all("tr", body).map((node) => ({ node, text: node.textContent.toLowerCase() }));
  const scroll = grid.querySelector(".scroll");
  const tools = grid.querySelector(".tools");
  const search = element("input", { type: "search", placeholder: "Search" });
  search.setAttribute("aria-label", `Search in ${grid.dataset.title}`);
  const status = element("span", { className: "status" });
  status.setAttribute("role", "status");
  const more = element("button", { type: "button" });
  let isShort = true;

  function update() {
    const words = search.value.toLowerCase().split(/\s+/);
    const matches = rows.filter(({ text }) => words.every((word) => text.includes(word)));
    const shown = isShort ? matches.slice(0, FIRST_ROWS) : matches;
    body.replaceChildren(...shown.map(({ node }) => node));
    const of = shown.length < matches.length ? `${counted(shown.length)} of ` : "";
    const noun = matches.length < rows.length ? "matches" : "rows";
    status.textContent = `${of}${counted(matches.length)} ${noun}`;
    scroll.classList.toggle("long", shown.length > FIRST_ROWS);
    more.hidden = matches.length <= FIRST_ROWS;
    more.textContent = isShort ? `Show ${counted(matches.length)} rows` : "Show fewer rows";
  }

  makeSortable(grid, rows, update);
  search.addEventListener("input", update);
  more.addEventListener("click", () => {
    isShort = !isShort;
    update();
  });
  if (rows.length > SEARCHED_ROWS) {
    tools.append(search, status, more);
  } else if (!grid.querySelector("h3")) {
    grid.querySelector(".heading").remove();
  }
  update();
}

function makeSortable(grid, rows, update) {
  const headers = all("th", grid);
  headers.forEach((header, column) => {
    const isNumeric = header.classList.contains("number");
    const button = element("button", { type: "button" }, ...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const before = header.getAttribute("aria-sort");
      const isAscending = before === null ? !isNumeric : before === "descending";
      headers.forEach((each) => each.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
      const direction = isAscending ? 1 : -1;
      rows.sort((one, other) => compare(one.node.cells[column], other.node.cells[column], direction));
      update();
    });
  });
}

const collator = new Intl.Collator("en", { numeric: true });

// Cells without a number come last in both directions.
function compare(cell, other, direction) {
  const hasValue = "value" in cell.dataset;
  if (hasValue !== "value" in other.dataset) {
    return hasValue ? -1 : 1;
  }
  if (!hasValue) {
    return direction * collator.compare(cell.textContent, other.textContent);
  }
  const [value, otherValue] = [Number(cell.dataset.value), Number(other.dataset.value)];
  return value === otherValue ? 0 : direction * (value - otherValue);
}

// ---------------------------------------------------------------------------------------------------------- charts

// Returns the width of the vertical axis, of which `labels` are the numbers; it is the same for most charts.
function widthOfLabels(chart, labels) {
  return Math.max(chart.width < 600 ? 48 : 96, ...(labels ?? []).map((label) => 16 + 8 * label.length));
}

const isDark = matchMedia("(prefers-color-scheme: dark)");

function makeChart(figure) {
  const { times, timeUnit, unit, series } = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".place");
  const size = () => ({ width: place.clientWidth, height: CHART_HEIGHT });
  let chart = null;

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const font = "12px system-ui, sans-serif";
    const axis = {
      stroke: color("muted"),
      grid: { stroke: color("line"), width: 1 },
      ticks: { stroke: color("line"), width: 1, size: 4 },
      font,
      labelFont: font,
      labelSize: 18,
    };
    const lines = series.map(({ name }, index) => ({
      label: name,
      stroke: color(`series-${(index % 6) + 1}`),
      width: 1.5,
      spanGaps: true,
      points: { fill: color("paper") },
      paths: uPlot.paths.stepped({ align: 1 }),
    }));
    chart?.destroy();
    chart = new uPlot(
      {
        ...size(),
        scales: { x: { time: false } },
        axes: [
          { ...axis, label: `time in ${timeUnit}`, size: 28 },
          { ...axis, label: unit || null, size: widthOfLabels },
        ],
        series: [{ label: `time in ${timeUnit}` }, ...lines],
      },
      [times, ...series.map(({ values }) => values)],
      place,
    );
  }

  draw();
  isDark.addEventListener("change", draw);
  new ResizeObserver(() => chart.setSize(size())).observe(place);
}

// ---------------------------------------------------------------------------------------------------- flame graphs

function makeFlame(figure) {
  const place = figure.querySelector(".place");
  const start = () => {
    if (!document.createElement("canvas").getContext("webgl")) {
      place.append(element("p", {}, "This browser cannot draw the flame graph, since WebGL is turned off."));
      return;
    }
    const frame = element("iframe", { title: figure.querySelector("figcaption").textContent });
    const data = figure.querySelector("script").outerHTML; // the frame may not look into this page
    const page = JSON.parse(document.getElementById("flame-page").textContent);
    frame.srcdoc = page.replace("<body>", () => `<body>${data}`);
    place.append(frame);
    const button = element("button", { type: "button" }, "Full screen");
    button.addEventListener("click", () => frame.requestFullscreen());
    const hint = element("span", { className: "status" }, "Click the graph to move and zoom with the wheel.");
    figure.querySelector(".tools").append(button, hint);
  };
  const observer = new IntersectionObserver(
    (entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) {
        observer.disconnect();
        start();
      }
    },
    { rootMargin: "600px" },
  );
  observer.observe(figure);
}

all(".grid").forEach(makeTable);
all(".chart").forEach(makeChart);
all(".flame").forEach(makeFlame);

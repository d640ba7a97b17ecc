// The charts that know nothing of collectives: lines over sizes, spans over time, a matrix. All are drawn anew when the
// width of the page changes. Colours are CSS variables, so that light and dark need no second drawing.
"use strict";

const symbols = [
  d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolWye, d3.symbolStar,
  d3.symbolCircle
];
const dashes = [null, "7 3", "2 3", "9 3 2 3", "4 4", "12 4", "1 4", "6 2 1 2 1 2"];
const numStyles = symbols.length;
const styleColor = (style) => (style < numStyles ? `var(--series-${style + 1})` : "var(--muted)");
const loadColor = (share) => `color-mix(in oklab, var(--load-high) ${Math.round(share * 100)}%, var(--load-low))`;

// A tooltip of text lines; the first is its title.
const tooltip = {
  show(event, lines) {
    const box = d3.select("#tooltip").attr("hidden", null);
    box.selectAll("div").data(lines).join("div").text((line) => line);
    const {width, height} = box.node().getBoundingClientRect();
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 8);
    const top = event.clientY + 18 + height > window.innerHeight ? event.clientY - height - 12 : event.clientY + 18;
    box.style("left", `${Math.max(8, left)}px`).style("top", `${Math.max(8, top)}px`);
  },
  hide() {
    d3.select("#tooltip").attr("hidden", true);
  },
  // Lines for each element, from its datum.
  on(selection, linesOf) {
    selection.on("pointermove", (datum) => tooltip.show(d3.event, linesOf(datum))).on("pointerleave", tooltip.hide);
  },
};

const newSvg = (host, height, label) => {
  const width = host.node().clientWidth;
  host.selectAll("svg").remove();
  const svg = host.append("svg").attr("width", width).attr("height", height).attr("role", "img");
  svg.attr("viewBox", `0 0 ${width} ${height}`).attr("aria-label", label);
  return {svg, width};
};

// The values whose places, in pixels, are so far apart at least; the last among them.
const spaced = (values, place, apart) => [...values].reverse().reduce(
    (kept, value) => (kept.length && Math.abs(place(kept[0]) - place(value)) < apart ? kept : [value, ...kept]), []);

// Powers of ten, and 2 and 5 times those where there are few.
const logTicks = ([low, high]) => {
  const decades = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
  const multiples = decades.length > 5 ? [1] : decades.length > 3 ? [1, 3] : [1, 2, 5];
  return decades.flatMap((decade) => multiples.map((multiple) => multiple * Math.pow(10, decade)))
      .filter((value) => value >= low && value <= high);
};

const timeAxis = (lowest, highest) => {
  const domain = [lowest / 1.6, highest * 1.6];
  return {scale: d3.scaleLog().domain(domain), ticks: logTicks(domain), text: timeText};
};

const shareAxis = (highest) => ({
  scale: d3.scaleLinear().domain([0, Math.max(1, highest) * 1.03]),
  ticks: d3.range(0, Math.max(1, highest) + 0.001, 0.25),
  text: percentText,
});

// Lines over sizes. `lines`: {label, style, isThick, points: [{bytes, value}]}; `bound`: points of the lower bound, or
// null. The chart is a slider over the sizes: arrows and clicks choose one.
const lineChart = ({host, label, sizes, chosen, lines, bound, y, choose}) => {
  const height = 320, margin = {top: 10, right: 14, bottom: 42, left: 62};
  const {svg, width} = newSvg(host, height, label);
  const x = d3.scaleLog().base(2).domain([sizes[0], sizes[sizes.length - 1]]).range([
    margin.left + 8, width - margin.right - 8
  ]);
  y.scale.range([height - margin.bottom, margin.top]);

  svg.append("g")
      .attr("class", "axis")
      .attr("transform", `translate(0,${height - margin.bottom})`)
      .call(d3.axisBottom(x).tickValues(spaced(sizes, x, 60)).tickFormat(bytesText).tickSizeOuter(0));
  svg.append("g")
      .attr("class", "axis grid")
      .attr("transform", `translate(${margin.left},0)`)
      .call(
          d3.axisLeft(y.scale).tickValues(y.ticks).tickFormat(y.text).tickSize(-(width - margin.left - margin.right)));
  svg.append("text")
      .attr("class", "axis-title")
      .attr("x", (margin.left + width) / 2)
      .attr("y", height - 6)
      .text("size of the larger buffer of one rank");

  const path = d3.line().x((point) => x(point.bytes)).y((point) => y.scale(point.value));
  if (bound) {
    svg.append("path")
        .attr("class", "impossible")
        .attr(
            "d",
            d3.area()
                .x((point) => x(point.bytes))
                .y0(height - margin.bottom)
                .y1((point) => y.scale(point.value))(bound));
    svg.append("path").attr("class", "bound").attr("d", path(bound));
  }
  svg.append("line")
      .attr("class", "chosen-size")
      .attr("x1", x(chosen))
      .attr("x2", x(chosen))
      .attr("y1", margin.top)
      .attr("y2", height - margin.bottom);
  const groups = svg.selectAll("g.series")
                     .data([...lines].reverse())
                     .join("g")
                     .attr("class", "series")
                     .style("--color", (line) => styleColor(line.style))
                     .classed("thick", (line) => line.isThick)
                     .classed("other", (line) => line.style >= numStyles);
  groups.append("path")
      .attr("class", "line")
      .attr("d", (line) => path(line.points))
      .attr("stroke-dasharray", (line) => dashes[line.style] || null);
  groups.filter((line) => line.style < numStyles)
      .selectAll("path.mark")
      .data((line) => line.points.map((point) => ({...point, style: line.style})))
      .join("path")
      .attr("class", "mark")
      .attr("transform", (point) => `translate(${x(point.bytes)},${y.scale(point.value)})`)
      .attr("d", (point) => d3.symbol().type(symbols[point.style]).size(42)());
  makeSlider({svg, x, label, sizes, chosen, lines, bound, text: y.text, choose});
};

const makeSlider = ({svg, x, label, sizes, chosen, lines, bound, text, choose}) => {
  const nearest = () => sizes[d3.scan(sizes, (a, b) => distance(a) - distance(b))];
  const distance = (bytes) => Math.abs(x(bytes) - d3.mouse(svg.node())[0]);
  const valuesAt = (bytes) => {
    const rows = lines.flatMap(
        (line) =>
            line.points.filter((point) => point.bytes === bytes).map((point) => `${line.label}: ${text(point.value)}`));
    const least = (bound || []).filter((point) => point.bytes === bytes);
    const shown = rows.length > 9 ? [...rows.slice(0, 8), `and ${rows.length - 8} more`] : rows;
    return [bytesText(bytes), ...shown, ...least.map((point) => `lower bound: ${text(point.value)}`)];
  };
  const index = sizes.indexOf(chosen);
  svg.attr("role", "slider")
      .attr("tabindex", 0)
      .attr("aria-label", `${label}. Arrows choose a size.`)
      .attr("aria-valuemin", 0)
      .attr("aria-valuemax", sizes.length - 1)
      .attr("aria-valuenow", index)
      .attr("aria-valuetext", valuesAt(chosen).join("; "))
      .on("pointermove", () => tooltip.show(d3.event, valuesAt(nearest())))
      .on("pointerleave", tooltip.hide)
      .on("click", () => choose(nearest()))
      .on("keydown", () => {
        const step = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1}[d3.event.key];
        if (!step) return;
        d3.event.preventDefault();
        choose(sizes[Math.max(0, Math.min(sizes.length - 1, index + step))]);
      });
};

// Bars, where there is but one size. `bars`: {label, style, value, text}; `bound`: {value, text} or null.
const barChart = ({host, label, bars, bound, most}) => {
  const row = 46, top = bound ? 22 : 4;
  const {svg, width} = newSvg(host, top + row * bars.length + 4, label);
  const x = d3.scaleLinear().domain([0, most]).range([0, width - 8]);
  const groups = svg.selectAll("g.bar")
                     .data(bars)
                     .join("g")
                     .attr("class", "bar")
                     .attr("transform", (_, index) => `translate(0,${top + index * row})`)
                     .style("--color", (bar) => styleColor(bar.style));
  groups.append("text").attr("y", 14).text((bar) => `${bar.label}: ${bar.text}`);
  groups.append("rect")
      .attr("y", 20)
      .attr("height", 16)
      .attr("rx", 2)
      .attr("width", (bar) => Math.max(1, x(bar.value)));
  if (!bound) return;
  svg.append("line")
      .attr("class", "bound")
      .attr("x1", x(bound.value))
      .attr("x2", x(bound.value))
      .attr("y1", 0)
      .attr("y2", top + row * bars.length);
  const isRight = x(bound.value) > width / 2;
  svg.append("text")
      .attr("class", "bound-text")
      .attr("x", x(bound.value) + (isRight ? -6 : 6))
      .attr("y", 12)
      .attr("text-anchor", isRight ? "end" : "start")
      .text(`lower bound: ${bound.text}`);
};

// A row per rank. `spans`: {rank, statement, kind, start, end, style, lines}, kinds as Report.h has them; what lies
// closer than half a pixel is drawn as one.
const spanChart = ({host, label, ranks, spans, end}) => {
  const row = ranks.length > 32 ? 10 : ranks.length > 12 ? 16 : 24, margin = {top: 4, right: 16, bottom: 40, left: 46};
  const height = margin.top + row * ranks.length + margin.bottom;
  const {svg, width} = newSvg(host, height, label);
  const x = d3.scaleLinear().domain([0, end]).range([margin.left, width - margin.right]);
  const y = d3.scaleBand().domain(ranks).range([margin.top, height - margin.bottom]).padding(0.18);
  svg.append("g")
      .attr("class", "axis grid")
      .attr("transform", `translate(0,${height - margin.bottom})`)
      .call(d3.axisBottom(x)
                .ticks(Math.max(2, width / 110))
                .tickFormat(timeText)
                .tickSize(-(height - margin.top - margin.bottom)));
  svg.append("g")
      .attr("class", "axis")
      .attr("transform", `translate(${margin.left},0)`)
      .call(d3.axisLeft(y).tickValues(spaced(ranks, y, 15)).tickSize(0).tickPadding(6))
      .select(".domain")
      .remove();
  svg.append("text")
      .attr("class", "axis-title")
      .attr("x", (margin.left + width) / 2)
      .attr("y", height - 6)
      .text("time since the ranks called");
  svg.append("text")
      .attr("class", "axis-title")
      .attr("text-anchor", "middle")
      .attr("transform", `translate(10,${margin.top + (row * ranks.length) / 2}) rotate(-90)`)
      .text("rank");
  const hasPuts = spans.some(({kind}) => kind === 1), upper = 0.6 * y.bandwidth();
  const halfPixel = (x.invert(0.5) - x.invert(0));
  const rects = svg.selectAll("rect.span")
                    .data(joined(spans, halfPixel))
                    .join("rect")
                    .attr("class", "span")
                    .attr("x", (span) => x(span.start))
                    .attr("width", (span) => Math.max(0.5, x(span.end) - x(span.start)))
                    .attr("y", ({rank, kind}) => y(rank) + (kind === 1 ? upper : 0))
                    .attr(
                        "height",
                        ({kind}) =>
                            (!hasPuts       ? y.bandwidth() :
                                 kind === 1 ? y.bandwidth() - upper :
                                              upper - 0.5))
                    .classed("waits", ({kind}) => kind === 2)
                    .style("fill", (span) => styleColor(span.style));
  tooltip.on(rects, (span) => span.lines(span));
};

// Spans of a rank and a style that follow each other within `gap` become one.
const joined = (spans, gap) => {
  const last = new Map(), result = [];
  for (const span of spans) {
    const key = `${span.rank} ${span.statement} ${span.kind}`, before = last.get(key);
    if (before && span.start - before.end < gap && before.end - before.start < gap) {
      before.end = Math.max(before.end, span.end), ++before.executions;
    } else {
      result.push({...span, executions: 1});
      last.set(key, result[result.length - 1]);
    }
  }
  return result;
};

// A square of cells: rows send, columns receive.
const matrixChart = ({host, label, names, values, kind}) => {
  const available = host.node().clientWidth, left = 64, top = 44;
  const cell = Math.max(8, Math.min(64, (available - left - 4) / names.length));
  const {svg} = newSvg(host, top + cell * names.length + 4, label);
  const most = d3.max(values, (row) => d3.max(row)) || 1;
  const cells = values.flatMap((row, from) => row.map((bytes, to) => ({from, to, bytes})));
  const place = (index) => index * cell;
  const rects = svg.append("g").attr("transform", `translate(${left},${top})`);
  tooltip.on(
      rects.selectAll("rect")
          .data(cells)
          .join("rect")
          .attr("class", "cell")
          .attr("x", ({to}) => place(to))
          .attr("y", ({from}) => place(from))
          .attr("width", cell - 1.5)
          .attr("height", cell - 1.5)
          .attr("rx", 2)
          .style("fill", ({bytes}) => (bytes ? loadColor(bytes / most) : "var(--empty)")),
      ({from, to, bytes}) => [`${kind}${names[from]} to ${kind}${names[to]}`, bytes ? bytesText(bytes) : "nothing"]);
  if (cell >= 50)
    rects.selectAll("text")
        .data(cells.filter(({bytes}) => bytes))
        .join("text")
        .attr("class", "cell-text")
        .attr("x", ({to}) => place(to) + cell / 2)
        .attr("y", ({from}) => place(from) + cell / 2 + 4)
        .style("--share", ({bytes}) => bytes / most)
        .text(({bytes}) => bytesText(bytes));
  const everySo = Math.ceil(16 / cell);
  const shown = names.map((name, index) => ({name, index})).filter(({index}) => index % everySo === 0);
  svg.selectAll("text.row")
      .data(shown)
      .join("text")
      .attr("class", "tick-text")
      .attr("x", left - 8)
      .attr("text-anchor", "end")
      .attr("y", ({index}) => top + place(index) + cell / 2 + 4)
      .text(({name}) => name);
  svg.selectAll("text.column")
      .data(shown)
      .join("text")
      .attr("class", "tick-text")
      .attr("y", top - 8)
      .attr("text-anchor", "middle")
      .attr("x", ({index}) => left + place(index) + cell / 2)
      .text(({name}) => name);
  svg.append("text")
      .attr("class", "axis-title")
      .attr("text-anchor", "middle")
      .attr("x", left + (cell * names.length) / 2)
      .attr("y", 14)
      .text(`to ${kind}`);
  svg.append("text")
      .attr("class", "axis-title")
      .attr("text-anchor", "middle")
      .attr("transform", `translate(14,${top + (cell * names.length) / 2}) rotate(-90)`)
      .text(`from ${kind}`);
};

// The sections of the page, each drawn for the schedule and the size that `state` holds: see report.js.
"use strict";

// A table: columns of {title, isNumber, cell(row) -> text, or a function that fills the selection of the cell}.
const fillTable = (id, columns, rows, rowClass = () => null) => {
  const table = select(id);
  table.selectAll("*").remove();
  table.append("thead")
      .append("tr")
      .selectAll("th")
      .data(columns)
      .join("th")
      .attr("scope", "col")
      .classed("number", ({isNumber}) => isNumber)
      .text(({title}) => title);
  const lines = table.append("tbody").selectAll("tr").data(rows).join("tr").attr("class", rowClass);
  lines.each(function(row, index) {
    for (const {cell, isNumber} of columns) {
      const place = d3.select(this).append("td").classed("number", isNumber === true);
      const content = cell(row, index);
      if (typeof content === "function")
        content(place);
      else
        place.text(content);
    }
  });
};

const swatch = (place, style) => {
  const svg = place.append("svg")
                  .attr("width", 34)
                  .attr("height", 14)
                  .attr("aria-hidden", true)
                  .attr("class", "series")
                  .style("--color", styleColor(style));
  svg.append("line")
      .attr("class", "line")
      .attr("x2", 34)
      .attr("y1", 7)
      .attr("y2", 7)
      .attr("stroke-dasharray", dashes[style] || null);
  if (style < numStyles)
    svg.append("path")
        .attr("class", "mark")
        .attr("transform", "translate(17,7)")
        .attr("d", d3.symbol().type(symbols[style]).size(42)());
};

const showLegend = () => {
  const legend = select("legend");
  legend.selectAll("*").remove();
  if (allSizes.length === 1) return;
  const named = byStyle.slice(0, numStyles), rest = byStyle.slice(numStyles);
  const entries = [
    ...named.map((schedule) => ({text: schedule.label, style: schedule.style, members: [schedule]})),
    ...(rest.length ? [{text: `${countText(rest.length)} others`, style: numStyles, members: rest}] : [])
  ];
  const buttons = legend.selectAll("button")
                      .data(entries)
                      .join("button")
                      .attr("type", "button")
                      .attr("aria-pressed", ({members}) => String(!state.hidden.has(members[0])));
  buttons.each(function({style, text}) {
    swatch(d3.select(this), style);
    d3.select(this).append("span").text(breakable(text));
  });
  buttons.on("click", ({members}, index) => {
    members.forEach((member) => state.hidden[state.hidden.has(member) ? "delete" : "add"](member));
    render();
    legend.selectAll("button").nodes()[index].focus();
  });
  const bound = legend.append("span").attr("class", "entry");
  bound.append("svg")
      .attr("width", 34)
      .attr("height", 14)
      .attr("aria-hidden", true)
      .append("line")
      .attr("class", "bound")
      .attr("x2", 34)
      .attr("y1", 7)
      .attr("y2", 7);
  bound.append("span").text("lower bound");
};

const pointsOf = (schedule, value) => allSizes.filter((bytes) => schedule.at.has(bytes))
                                          .map((bytes) => ({bytes, value: value(schedule.at.get(bytes))}))
                                          .filter((point) => point.value > 0);

const showSizes = () => {
  select("time-caption").text("Time by size; lower is better");
  select("fraction-caption").text("Fraction of the lower bound; higher is better");
  if (allSizes.length === 1) return showOneSize();
  const shown = byStyle.filter((schedule) => !state.hidden.has(schedule));
  const linesOf = (value) => shown.map((schedule) => ({
                                         label: schedule.label,
                                         style: schedule.style,
                                         isThick: schedule === state.schedule,
                                         points: pointsOf(schedule, value)
                                       }));
  const chart = {sizes: allSizes, chosen: state.bytes, choose: (bytes) => choose({bytes})};
  const bound = allSizes.map((bytes) => ({bytes, value: boundAt(bytes)})).filter(({value}) => value > 0);
  const times = linesOf((size) => size.seconds), fractions = linesOf(fractionOf);
  const extent = d3.extent([...times.flatMap(({points}) => points), ...bound], ({value}) => value);
  lineChart({
    ...chart,
    host: select("time"),
    label: "Time by size, logarithmic",
    lines: times,
    bound: bound.length ? bound : null,
    y: timeAxis(...(extent[0] ? extent : [1e-6, 1e-3]))
  });
  const hasFractions = fractions.some(({points}) => points.length);
  select("fraction").node().parentNode.hidden = !hasFractions && shown.length > 0;
  if (hasFractions || shown.length === 0)
    lineChart({
      ...chart,
      host: select("fraction"),
      label: "Fraction of the lower bound by size",
      lines: fractions,
      bound: null,
      y: shareAxis(d3.max(fractions.flatMap(({points}) => points), ({value}) => value) || 1)
    });
};

const showOneSize = () => {
  const ranked = bestAt.get(state.bytes), drawn = ranked.slice(0, 12);
  if (drawn.length < ranked.length)
    select("time-caption")
        .text(`Time of the best ${drawn.length} of ${countText(ranked.length)} schedules; lower is better`);
  const bars = (value, text) =>
      drawn.map((schedule) => schedule.at.get(state.bytes))
          .map(
              (size, index) =>
                  ({label: drawn[index].label, style: drawn[index].style, value: value(size), text: text(value(size))}))
          .filter((bar) => bar.value > 0);
  const least = boundAt(state.bytes), times = bars((size) => size.seconds, timeText),
        fractions = bars(fractionOf, percentText);
  barChart({
    host: select("time"),
    label: "Time by schedule",
    bars: times,
    most: d3.max(times, (bar) => bar.value) * 1.02,
    bound: least ? {value: least, text: timeText(least)} : null
  });
  select("fraction").node().parentNode.hidden = !fractions.length;
  if (fractions.length)
    barChart({
      host: select("fraction"),
      label: "Fraction of the lower bound by schedule",
      bars: fractions,
      bound: null,
      most: Math.max(1, d3.max(fractions, (bar) => bar.value))
    });
};

const labelCell = ({label}) => (place) => place.attr("class", "name").text(breakable(label));

const showBest = () => {
  const at = (bytes, place) => bestAt.get(bytes)[place] && bestAt.get(bytes)[place].at.get(bytes);
  const columns = [
    {title: "Size", isNumber: true, cell: bytesText},
    {title: schedules.length > 1 ? "Best schedule" : "Schedule", cell: (bytes) => labelCell(bestAt.get(bytes)[0])},
    {title: "Time", isNumber: true, cell: (bytes) => timeText(at(bytes, 0).seconds)},
    {title: "Lower bound", isNumber: true, cell: (bytes) => (boundAt(bytes) ? timeText(boundAt(bytes)) : "")},
    {
      title: "Of the bound",
      isNumber: true,
      cell: (bytes) => (hasBound(at(bytes, 0)) ? percentText(fractionOf(at(bytes, 0))) : "")
    },
    {title: "Bandwidth", isNumber: true, cell: (bytes) => bandwidthText(bytes / at(bytes, 0).seconds)},
    {title: "Bottleneck", cell: (bytes) => bottleneckText(at(bytes, 0))},
  ];
  if (schedules.length > 1)
    columns.push({title: "Runner-up", cell: (bytes) => (at(bytes, 1) ? labelCell(bestAt.get(bytes)[1]) : "")}, {
      title: "Slower by",
      isNumber: true,
      cell: (bytes) => (at(bytes, 1) ? percentText(at(bytes, 1).seconds / at(bytes, 0).seconds - 1) : "")
    });
  fillTable("best", columns, allSizes, (bytes) => (bytes === state.bytes ? "chosen" : null));
};

// The statements that take most time have a colour each.
const styledStatements = (statements) => {
  const byTime = [...statements].sort((a, b) => b.seconds - a.seconds);
  return statements.map((statement) => ({...statement, style: byTime.indexOf(statement)}));
};
const placeOf = ({file, line}) => [file.split("/").pop(), ...(line ? [line] : [])].join(":");

const showStatements = () => {
  const size = current(), statements = styledStatements(size.statements || []);
  const rows = sourceRows(statements);
  select("statements-section").attr("hidden", statements.length || state.schedule.source ? null : true);
  select("statements-note")
      .text(
          `${state.schedule.label}, ${bytesText(size.bytes)}. The dark part of a bar is time that is spent on ` +
          "waiting for messages; the rest is bandwidth.");
  const most = d3.max(statements, ({seconds}) => seconds) || 1;
  const bar = ({seconds, latencySeconds, style}) => (place) => {
    const box = place.append("div").attr("class", "share").style("--color", styleColor(style));
    box.append("span")
        .attr("class", "whole")
        .style("width", `${(100 * seconds) / most}%`)
        .append("span")
        .attr("class", "latency")
        .style("width", `${seconds ? (100 * (latencySeconds || 0)) / seconds : 0}%`);
  };
  fillTable(
      "statements",
      [
        {
          title: "Statement",
          cell: (row) =>
              (row.row ? (state.schedule.source ? `line ${row.row.number}` : placeOf(row)) :
                         (place) => {
                           place.attr("class", "statement").append("code").text(row.text || placeOf(row));
                           if (row.text && row.file) place.append("span").attr("class", "place").text(placeOf(row));
                         })
        },
        {title: "Time", isNumber: true, cell: ({seconds}) => timeText(seconds)},
        {title: "", cell: bar},
        {title: "Latency", isNumber: true, cell: ({latencySeconds}) => timeText(latencySeconds || 0)},
        {title: "Runs", isNumber: true, cell: ({executions}) => countText(executions)},
        {title: "Bytes", isNumber: true, cell: ({bytes}) => bytesText(bytes)},
        {
          title: "Bottleneck",
          cell: ({bottleneck}) => (place) => place.attr("class", "name").text(nameText(bottleneck || ""))
        },
      ],
      statements);
  showSource(rows, statements);
};

// Lines of a schedule's own source may count from another place: the text decides, and of equal ones the nearest.
const rowOf = (rows, {text, line}) => {
  const equal = rows.filter((row) => text && row.text.trim() === text.trim());
  return equal[d3.scan(equal, (a, b) => Math.abs(a.number - line) - Math.abs(b.number - line))];
};

// What is shown of the source, in rows: {heading}, {number, text} or {gap}. All of the schedule's own source; else, of
// every file, the lines around its statements. Rows of statements have their time, and statements know their row.
const sourceRows = (statements) => {
  const own = state.schedule.source;
  const files = own ? [""] : [...new Set(statements.map(({file}) => file))].filter((file) => data.sources[file]);
  return files.flatMap((file) => {
    const texts = (own || data.sources[file]).replace(/\n$/, "").split("\n");
    const rows = texts.map((text, index) => ({number: index + 1, text, seconds: 0}));
    const here = statements.filter((statement) => own || statement.file === file);
    for (const statement of here) {
      const row = own ? rowOf(rows, statement) : rows[statement.line - 1];
      if (!row) continue;
      statement.row = row;
      row.seconds += statement.seconds;
      row.style = row.style === undefined ? statement.style : row.style;
    }
    if (own) return rows;
    const isNear = ({number}) => here.some(({line}) => number >= line - 4 && number <= line + 2);
    const near = rows.filter(isNear);
    return [
      {heading: file.split("/").pop()},
      ...near.flatMap((row, index) => (index && row.number > near[index - 1].number + 1 ? [{gap: true}, row] : [row]))
    ];
  });
};

const showSource = (rows, statements) => {
  select("source-figure").attr("hidden", rows.length ? null : true);
  d3.select(".source-columns").classed("single", !rows.length);
  select("source-caption")
      .text(`${state.schedule.algorithm || state.schedule.name}, in Kolo's language; the bars are shares of the time`);
  const total = d3.sum(statements, ({seconds}) => seconds) || 1;
  select("source").selectAll("*").remove();
  const items = select("source")
                    .append("ol")
                    .selectAll("li")
                    .data(rows)
                    .join("li")
                    .classed("spent", ({style}) => style !== undefined)
                    .classed("heading", ({heading}) => heading)
                    .style("--color", ({style}) => (style === undefined ? null : styleColor(style)));
  items.append("span").attr("class", "line-number").text(({number, gap}) => (gap ? "⋮" : number));
  items.append("span")
      .attr("class", "gutter")
      .append("span")
      .style("width", ({seconds}) => `${(100 * (seconds || 0)) / total}%`);
  items.append("code").text(({text, heading}) => text || heading || " ");
};

const spanKinds = ["moves data", "its put is under way", "waits"];

const showTimeline = () => {
  const timeline = data.timelines.find(({schedule}) => schedule === state.schedule.number);
  select("timeline-section").attr("hidden", timeline ? null : true);
  if (!timeline) return;
  for (const id of ["timeline", "timeline-legend"]) select(id).attr("hidden", timeline.spans ? null : true);
  if (!timeline.spans) return select("timeline-note").text(`There is no timeline: ${timeline.reason}.`);
  const drawn = timeline.shown < timeline.ranks ? `the first ${timeline.shown} of ${countText(timeline.ranks)} ranks` :
                                                  `all ${countText(timeline.ranks)} ranks`;
  select("timeline-note")
      .text(
          `${state.schedule.label}, ${bytesText(timeline.bytes)}: ${drawn}. The upper part of a row is what ` +
          "the rank does, pale where it waits; the lower part is its puts under way.");
  const names = timeline.statements.map((statement) => statement.text || placeOf(statement));
  const spent = names.map(() => 0);
  for (const [, statement, , begin, end] of timeline.spans) spent[statement] += end - begin;
  const ranked = d3.range(names.length).filter((statement) => spent[statement]).sort((a, b) => spent[b] - spent[a]);
  // In the colours of the statements above; what has no time of its own there comes after them.
  const above = styledStatements(current().statements || []);
  const styleAbove = new Map(above.map(({file, line, style}) => [`${file}:${line}`, style]));
  let numStyled = above.length;
  const styles = timeline.statements.map(({file, line}, statement) => {
    const style = styleAbove.get(`${file}:${line}`);
    return style !== undefined ? style : spent[statement] ? numStyled++ : 0;
  });
  const spans = timeline.spans.map(([rank, statement, kind, start, end]) => ({
                                     rank,
                                     statement,
                                     kind,
                                     start,
                                     end,
                                     style: styles[statement],
                                     lines: ({start: from, end: to, executions}) =>
                                         [names[statement], `rank ${rank} ${spanKinds[kind]}`,
                                          `${timeText(from)} to ${timeText(to)}: ${timeText(to - from)}`,
                                          ...(executions > 1 ? [`${executions} executions`] : [])]
                                   }));
  const entries = ranked.filter((statement) => styles[statement] < numStyles)
                      .map((statement) => ({style: styles[statement], name: names[statement]}));
  if (ranked.length > entries.length) entries.push({style: numStyles, name: "other statements"});
  select("timeline-legend").selectAll("span.entry").data(entries).join("span").attr("class", "entry").each(function({
    name,
    style
  }) {
    d3.select(this).selectAll("*").remove();
    d3.select(this).append("span").attr("class", "patch").style("--color", styleColor(style));
    d3.select(this).append("code").text(name);
  });
  spanChart({
    host: select("timeline"),
    label: `Timeline of ${state.schedule.label}`,
    ranks: d3.range(timeline.shown),
    spans,
    end: d3.max(spans, ({end}) => end)
  });
};

const showLinks = () => {
  const size = current(), loads = [...(size.links || [])].sort((a, b) => b.share - a.share);
  const graph = loads.length ? data.machine : null, traffic = size.traffic || cost.traffic;
  select("links-section").attr("hidden", loads.length || traffic ? null : true);
  select("node-figure").attr("hidden", graph ? null : true);
  select("traffic-figure").attr("hidden", traffic ? null : true);
  select("links-region").attr("hidden", loads.length ? null : true).classed("below", Boolean(graph && traffic));
  select("links-note")
      .text(`${state.schedule.label}, ${
          bytesText(size.bytes)}. A load is the share of the time in which the link is busy.`);
  const most = Math.max(...loads.map(({share}) => share), 1e-9);
  fillTable(
      "links",
      [
        {title: "Link", cell: ({resource}) => nameText(resource)},
        {title: "Load", isNumber: true, cell: ({share}) => percentText(share)},
        {
          title: "",
          cell: ({share}) => (place) => place.append("div")
                                            .attr("class", "share")
                                            .append("span")
                                            .attr("class", "load")
                                            .style("width", `${(100 * share) / most}%`)
                                            .style("background", loadColor(Math.min(1, share)))
        },
        {title: "Bytes", isNumber: true, cell: ({bytes}) => bytesText(bytes)},
      ],
      loads);
  if (graph) showNode(graph, loads);
  if (traffic) showTraffic(traffic);
};

const showNode = (graph, loads) => {
  select("node-caption").text(`A node of ${cost.machine}; wider arrows are more links`);
  drawNode({host: select("node"), label: `A node of ${cost.machine}, its links coloured by load`, graph, loads});
  select("node-legend")
      .selectAll("span")
      .data(["0 %", "", "busy 100 % of the time"])
      .join("span")
      .attr("class", (_, index) => ["", "gradient", ""][index])
      .text((text) => text);
};

const showTraffic = (values) => {
  const names = data.machine ? data.machine.vertices.filter(({kind}) => kind === "device").map(({name}) => name) :
                               values.map((_, index) => `device ${index}`);
  // "GCD 0", "GCD 1": what all names begin with stands at the axis.
  const kind = (/^\D*/.exec(names[0]) || [""])[0],
        isShared = names.every((name) => name.startsWith(kind) && name.length > kind.length);
  select("traffic-caption").text("Traffic between the devices of a node, whichever way it takes");
  matrixChart({
    host: select("traffic"),
    label: "Traffic between devices",
    values,
    kind: isShared ? kind : "",
    names: isShared ? names.map((name) => name.slice(kind.length)) : names
  });
};

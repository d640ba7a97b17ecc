// The page: what is chosen, and the sections that show it. `data` has the form that Report.h describes.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const cost = {
  ...data.cost,
  schedules: data.cost.schedules.map((schedule, number) => ({...schedule, number})).filter(({sizes}) => sizes.length)
};

// The schedules, each with the style of its line: the best ones have the eight that can be told apart.
const allSizes = [...new Set(cost.schedules.flatMap(({sizes}) => sizes.map(({bytes}) => bytes)))].sort((a, b) => a - b);
const originText = {
  shipped: "shipped",
  rings: "RCCL's rings"
};
const labelOf =
    ({name, algorithm, schedule, mesh, placement, origin}) => [algorithm || name,
                                                               scheduleText(schedule),
                                                               mesh && mesh !== cost.mesh ? `on ${mesh}` : "",
                                                               placement && placement !== cost.placement ? placement :
                                                                                                           "",
                                                               originText[origin],
].filter(Boolean).join(", ");
const schedules = cost.schedules.map((schedule, index) => ({
                                       ...schedule,
                                       index,
                                       label: labelOf(schedule),
                                       at: new Map(schedule.sizes.map((size) => [size.bytes, size])),
                                     }));
// An exploration ranks by itself, and knows times better than the closed form: it simulates what it ranks.
const rankedByExplore = new Map((cost.frontier || []).map(({bytes, ranked}) => [bytes, ranked]));
for (const [bytes, ranked] of rankedByExplore)
  for (const {schedule, seconds, fractionOfBound} of ranked) {
    const size = schedules.find(({number}) => number === schedule).at.get(bytes);
    Object.assign(size, {seconds, fractionOfBound});
  }
const placeAt = (bytes, {number}) => {
  const place = (rankedByExplore.get(bytes) || []).findIndex(({schedule}) => schedule === number);
  return place < 0 ? Infinity : place;
};
const rankedAt = (bytes) => {
  const timeOf = (schedule) => schedule.at.get(bytes).seconds;
  const isBefore = (a, b) => placeAt(bytes, a) < placeAt(bytes, b) ||
      (placeAt(bytes, a) === placeAt(bytes, b) &&
       (timeOf(a) < timeOf(b) || (timeOf(a) === timeOf(b) && a.index < b.index)));
  return schedules.filter(({at}) => at.has(bytes)).sort((a, b) => (isBefore(a, b) ? -1 : 1));
};
const bestAt = new Map(allSizes.map((bytes) => [bytes, rankedAt(bytes)]));
// How often a schedule is the best, the second, and so on. RCCL's rings are always among those that can be told apart.
const merit = (schedule) => (schedule.origin === "rings" ? 1 : 0) +
    d3.sum([...bestAt.values()], (ranked) => ranked.includes(schedule) ? 1 / (1 + ranked.indexOf(schedule)) ** 2 : 0);
[...schedules]
    .sort((a, b) => merit(b) - merit(a) || a.index - b.index)
    .forEach((schedule, style) => (schedule.style = style));
const byStyle = [...schedules].sort((a, b) => a.style - b.style);

const lastSize = allSizes[allSizes.length - 1];
const state = {
  bytes: lastSize,
  schedule: bestAt.get(lastSize)[0],
  hidden: new Set()
};
const hasBound = (size) => size && size.boundSeconds > 0;
const boundAt = (bytes) => (bestAt.get(bytes).map(({at}) => at.get(bytes)).find(hasBound) || {}).boundSeconds;
const fractionOf = (size) => (hasBound(size) ? size.fractionOfBound : undefined);
// A prediction that was taken over from another mesh has neither statements nor a bottleneck.
const bottleneckText = ({bottleneck, latencySeconds}) => bottleneck ? nameText(bottleneck) :
    latencySeconds > 0                                              ? "latency" :
                                                                      "not known";
const current = () => state.schedule.at.get(state.bytes);
const select = (id) => d3.select(`#${id}`);

const choose = (change) => {
  Object.assign(state, change);
  if (!current()) state.schedule = bestAt.get(state.bytes)[0];
  const focused = document.activeElement && document.activeElement.closest("#time, #fraction");
  render();
  if (focused) focused.querySelector("svg").focus();
};

const fillHeader = () => {
  const best = bestAt.get(lastSize)[0], size = best.at.get(lastSize), fraction = fractionOf(size);
  const rates = `${bandwidthText(size.bytes / size.seconds)} for ${bytesText(size.bytes)}`;
  const title = `${collectiveText(cost.collective)} on ${cost.machine}: ${rates}` +
      (fraction === undefined ? "" : `, ${percentText(fraction)} of the lower bound`);
  select("subtitle").text(`${schedules.length > 1 ? "Best schedule" : "Schedule"}: ${breakable(best.label)}`);
  select("title").text(title);
  document.title = `Kolo: ${title}`;
  select("kicker").text(`Kolo · ${cost.model}${cost.rates ? ` · ${cost.rates} rates` : ""}`);
  const setting = [
    ["machine", data.machine ? data.machine.title : cost.machine], ["mesh", cost.mesh], ["placement", cost.placement]
  ].filter(([, value]) => value);
  select("setting").selectAll("span").data(setting).join("span").text(([name, value]) => `${name} ${value}`);
  const footer = select("footer");
  footer.append("p").text(
      "Times are predictions, from the moment all ranks call until the last rank returns. GB/s are 1e9 bytes " +
      "per second; KiB, MiB and GiB are powers of 1024. The bandwidth is the larger buffer of one rank over the time.");
  const command = data.command || cost.command;
  if (command) footer.append("p").text("Made by ").append("code").text(command);
};

const fillChoice = () => {
  select("size")
      .on("change", () => choose({bytes: Number(select("size").property("value"))}))
      .selectAll("option")
      .data(allSizes)
      .join("option")
      .attr("value", (bytes) => bytes)
      .text(bytesText);
  select("schedule")
      .on("change",
          () => {
            const schedule = schedules[Number(select("schedule").property("value"))];
            // A schedule that was not costed at this size is shown at its largest.
            choose({schedule, bytes: schedule.at.has(state.bytes) ? state.bytes : d3.max([...schedule.at.keys()])});
          })
      .selectAll("option")
      .data(byStyle)
      .join("option")
      .attr("value", ({index}) => index)
      .text(({label}) => label);
};

const showFigures = () => {
  const size = current(), fraction = fractionOf(size);
  select("size").property("value", state.bytes);
  select("schedule").property("value", state.schedule.index);
  const place = bestAt.get(state.bytes).indexOf(state.schedule);
  const figures = [
    [
      "Time", timeText(size.seconds),
      schedules.length === 1 ?
          `for ${bytesText(size.bytes)}` :
          place === 0 ?
          `best of ${countText(bestAt.get(state.bytes).length)} for ${bytesText(size.bytes)}` :
          `${digits(size.seconds / bestAt.get(state.bytes)[0].at.get(state.bytes).seconds)} times the best`
    ],
    [
      "Bandwidth", bandwidthText(size.bytes / size.seconds),
      hasBound(size) ? `bound ${bandwidthText(size.bytes / size.boundSeconds)}` : ""
    ],
    [
      "Of the lower bound", fraction === undefined ? "no bound" : percentText(fraction),
      hasBound(size) ? `bound ${timeText(size.boundSeconds)}` : ""
    ],
    [
      "Bottleneck", bottleneckText(size),
      size.latencySeconds > 0 ? `latency is ${percentText(size.latencySeconds / size.seconds)} of the time` : ""
    ],
  ];
  const boxes = select("figures").selectAll("div").data(figures).join("div");
  boxes.selectAll("*").remove();
  boxes.append("dt").text(([name]) => name);
  boxes.append("dd").classed("long", ([, value]) => value.length > 12).text(([, value]) => value);
  boxes.append("dd").attr("class", "detail").text(([, , detail]) => detail);
};

const render = () => {
  tooltip.hide();
  for (const show of [showFigures, showLegend, showSizes, showBest, showStatements, showTimeline, showLinks]) show();
};

fillHeader();
fillChoice();
render();
let drawnWidth = document.documentElement.clientWidth;
new ResizeObserver(() => {
  if (drawnWidth === document.documentElement.clientWidth) return;
  drawnWidth = document.documentElement.clientWidth;
  render();
}).observe(document.documentElement);
document.addEventListener("keydown", (event) => event.key === "Escape" && tooltip.hide());

// The drawing of a node: devices on a circle, in the order that keeps their links short; switches within, NICs around.
"use strict";

// `graph`: {vertices: [{name, kind}], links: [{from, to, count, class}]}; `loads`: of resources, {from, to, share, bytes}.
const drawNode = ({ host, label, graph, loads }) => {
  const margin = 34, boxHeight = 24;
  const available = host.node().clientWidth;
  const hasNics = graph.vertices.some((vertex) => vertex.kind === "nic");
  const outer = Math.min(available / 2 - margin, 250), radius = hasNics ? outer - 64 : outer;
  const size = 2 * (outer + margin);
  const { svg } = newSvg(host, size - (hasNics ? 0 : 10), label);
  graph.order = graph.order || ringOrder(d3.range(graph.vertices.length).filter((index) => graph.vertices[index].kind === "device"),
    graph.links);
  const vertices = placed(graph, radius, outer).map((vertex) => ({ ...vertex, width: 14 + 7.2 * vertex.name.length }));
  const canvas = svg.append("g").attr("transform", `translate(${available / 2},${size / 2})`);

  const loadOf = new Map(loads.map((load) => [`${load.from}\n${load.to}`, load]));
  const directions = graph.links.flatMap((link) => [[link.from, link.to], [link.to, link.from]].map(([from, to]) =>
    ({ ...link, from: vertices[from], to: vertices[to], load: loadOf.get(`${vertices[from].name}\n${vertices[to].name}`) })));
  const lines = canvas.selectAll("path.link").data(directions).join("path").attr("class", "link").attr("d", arrow)
    .style("fill", ({ load }) => (load ? loadColor(Math.min(1, load.share)) : "var(--empty)"));
  tooltip.on(lines, ({ from, to, count, load, ...link }) => [`${from.name} to ${to.name}`,
    `${link.class}${count > 1 ? `, ${count} links` : ""}`, load ? `busy ${percentText(load.share)} of the time` : "idle",
    ...(load ? [bytesText(load.bytes)] : [])]);

  const boxes = canvas.selectAll("g.vertex").data(vertices).join("g").attr("class", (vertex) => `vertex ${vertex.kind}`)
    .attr("transform", ({ x, y }) => `translate(${x},${y})`);
  boxes.append("rect").attr("x", ({ width }) => -width / 2).attr("width", ({ width }) => width).attr("y", -boxHeight / 2)
    .attr("height", boxHeight).attr("rx", ({ kind }) => (kind === "device" ? 5 : kind === "nic" ? 0 : boxHeight / 2));
  boxes.append("text").attr("y", 4).text(({ name }) => name);
};

// One direction of a link: a bar to the right of the middle line, with a point at its end. Wider with the number of links.
const arrow = ({ from, to, count }) => {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const along = [(to.x - from.x) / length, (to.y - from.y) / length], right = [-along[1], along[0]];
  const width = 2.5 + 1.5 * Math.min(count, 6), begin = clearance(from, along), end = length - clearance(to, along) - 2;
  const tip = Math.min(10, Math.max(0, (end - begin) / 3));
  const at = (distance, aside) => [0, 1].map((axis) => [from.x, from.y][axis] + along[axis] * distance + right[axis] * aside);
  const corners = [at(begin, 1), at(end, 1), at(end - tip, width + 4), at(end - tip, width + 1), at(begin, width + 1)];
  return `M${corners.map((corner) => corner.map((value) => value.toFixed(1)).join(",")).join("L")}Z`;
};

// From a box's centre to its edge, in this direction.
const clearance = ({ width }, [x, y]) => Math.min(Math.abs(width / 2 / (x || 1e-9)), Math.abs(12 / (y || 1e-9))) + 3;

const placed = (graph, radius, outer) => {
  const neighbours = graph.vertices.map(() => []);
  graph.links.forEach(({ from, to }) => (neighbours[from].push(to), neighbours[to].push(from)));
  const spot = graph.vertices.map((vertex, index) => ({ ...vertex, index }));
  graph.order.forEach((device, place) => Object.assign(spot[device], { fixed: true },
    onCircle(radius, (2 * Math.PI * (place - 0.5)) / graph.order.length - Math.PI / 2)));
  const others = spot.filter((vertex) => !vertex.fixed);
  others.forEach((vertex, order) => {
    const near = neighbours[vertex.index].filter((other) => spot[other].fixed);
    const x = d3.mean(near, (other) => spot[other].x) || 0, y = d3.mean(near, (other) => spot[other].y) || 0;
    // Several with the same neighbours would lie at one point: each starts a little aside.
    const aside = { x: 0.7 * (order - (others.length - 1) / 2), y: 0.2 * order };
    const isCentral = Math.hypot(x, y) < radius / 20;
    if (vertex.kind === "nic")
      Object.assign(vertex, onCircle(outer, isCentral ? (2 * Math.PI * order) / others.length : Math.atan2(y, x) + order / 1000));
    else Object.assign(vertex, { x: x * 0.55 + aside.x, y: y * 0.55 + aside.y });
  });
  spread(spot, outer);
  return spot;
};

const onCircle = (radius, angle) => ({ x: radius * Math.cos(angle), y: radius * Math.sin(angle) });

// Moves apart what overlaps; devices stay, and NICs stay on their circle.
const spread = (spot, outer) => {
  spot.filter(({ fixed }) => fixed).forEach((vertex) => Object.assign(vertex, { fx: vertex.x, fy: vertex.y }));
  d3.forceSimulation(spot).force("collide", d3.forceCollide(30).strength(0.5)).force("outside",
    d3.forceRadial(outer).strength(({ kind }) => (kind === "nic" ? 1 : 0))).stop().tick(120);
};

// The devices in an order round the circle, device 0 first, in which few links cross, and wide ones are short: each device
// comes where it is best, then parts of the order are turned round as long as that helps.
const ringOrder = (devices, links) => {
  const best = (orders) => orders[d3.scan(orders.map((order) => tangle(order, links)))];
  let order = [];
  for (const device of devices)
    order = best(d3.range(Math.min(1, order.length), order.length + 1).map((place) =>
      [...order.slice(0, place), device, ...order.slice(place)]));
  for (let before; before !== order;) {
    before = order;
    order = best([order, ...pairsOf(order.length).filter(([i]) => i > 0).map(([i, j]) =>
      [...before.slice(0, i), ...before.slice(i, j + 1).reverse(), ...before.slice(j + 1)])]);
  }
  return order;
};

const pairsOf = (number) => d3.range(number).flatMap((i) => d3.range(i + 1, number).map((j) => [i, j]));

// Links that cross, and the length of all. Of the links between devices of the order.
const tangle = (order, links) => {
  const place = new Map(order.map((device, index) => [device, index]));
  const chords = links.filter(({ from, to }) => place.has(from) && place.has(to)).map(({ from, to, count }) => [...[place.get(from), place.get(to)].sort((a, b) => a - b), count]);
  const crossings = d3.sum(pairsOf(chords.length), ([i, j]) => {
    const [a, b] = chords[i], [c, d] = chords[j];
    return (a < c && c < b && b < d) || (c < a && a < d && d < b);
  });
  return crossings + 0.2 * d3.sum(chords, ([a, b, count]) => Math.sqrt(count) * Math.min(b - a, order.length - b + a));
};

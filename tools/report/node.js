// The drawing of a node: devices on an oval, in the order that keeps their links short; switches within, NICs around.
"use strict";

// `graph`: as Report.h has it; `loads`: {resource: "GCD 0 -> GCD 1", share, bytes}, of wires to the network too.
const wireLength = 20;
const drawNode = ({host, label, graph, loads}) => {
  const available = host.node().clientWidth, isNarrow = available < 480, boxHeight = 24;
  const boxWidth = (name) => (isNarrow ? 8 + 6.6 * name.length : 14 + 7.2 * name.length);
  const widest = d3.max(graph.vertices, ({name}) => boxWidth(name)),
        hasNics = graph.vertices.some(({kind}) => kind === "nic");
  const outer = {x: Math.min(250, (available - widest) / 2 - (hasNics ? wireLength : 2)), y: hasNics ? 225 : 180};
  const inner = hasNics ? {x: outer.x - widest - (isNarrow ? 14 : 26), y: outer.y - 62} : outer;
  graph.order = graph.order ||
      ringOrder(d3.range(graph.vertices.length).filter((index) => graph.vertices[index].kind === "device"),
                graph.links);
  const vertices = placed(graph, inner, outer).map((vertex) => ({...vertex, width: boxWidth(vertex.name)}));
  const top = d3.min(vertices, ({y}) => y) - boxHeight - 8, bottom = d3.max(vertices, ({y}) => y) + boxHeight + 8;
  const {svg} = newSvg(host, bottom - top, label);
  const canvas = svg.append("g").attr("transform", `translate(${available / 2},${- top})`);

  const lines = canvas.selectAll("path.link")
                    .data(directionsOf(graph, vertices, loads, isNarrow ? 0.6 : 1))
                    .join("path")
                    .attr("class", "link")
                    .attr("d", arrow)
                    .style("fill", ({load}) => (load ? loadColor(Math.min(1, load.share)) : "var(--empty)"));
  tooltip.on(
      lines,
      ({from, to, count, load, ...link}) =>
          [`${from.name} to ${to.name}`, `${link.class}${count > 1 ? `, ${count} links` : ""}`,
              load ? `busy ${percentText(load.share)} of the time` : "idle", ...(load ? [bytesText(load.bytes)] : [])]);
  const boxes = canvas.selectAll("g.vertex")
                    .data(vertices)
                    .join("g")
                    .attr("class", (vertex) => `vertex ${vertex.kind}`)
                    .attr("transform", ({x, y}) => `translate(${x},${y})`);
  boxes.append("rect")
      .attr("x", ({width}) => -width / 2)
      .attr("width", ({width}) => width)
      .attr("y", -boxHeight / 2)
      .attr("height", boxHeight)
      .attr(
          "rx",
          ({kind}) =>
              (kind === "device"  ? 5 :
                   kind === "nic" ? 0 :
                                    boxHeight / 2));
  boxes.append("text").attr("y", 4).text(({name}) => name);
};

// Both directions of every link; and of the wire of every NIC, which ends a little outside of it.
const directionsOf = (graph, vertices, loads, scale) => {
  const loadOf = new Map(loads.map((load) => [load.resource, load]));
  const wires = vertices.filter(({kind}) => kind === "nic").map((nic) => {
    const length = Math.hypot(nic.x, nic.y), [x, y] = [nic.x / length, nic.y / length],
          away = clearance(nic, [x, y]) + wireLength;
    return {
      from: nic,
      to: {name: "network", x: nic.x + x * away, y: nic.y + y * away, width: 0, isPoint: true},
      count: 1,
      class: nic.wire
    };
  });
  return [...graph.links.map((link) => ({...link, from: vertices[link.from], to: vertices[link.to]})), ...wires]
      .flatMap((link) => [link, {...link, from: link.to, to: link.from}])
      .map((link) => ({
             ...link,
             width: (2.5 + 1.5 * Math.min(link.count, 6)) * scale,
             load: loadOf.get(`${link.from.name} -> ${link.to.name}`)
           }));
};

// One direction of a link: a bar to the right of the middle line, with a point at its end.
const arrow = ({from, to, width}) => {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const along = [(to.x - from.x) / length, (to.y - from.y) / length], right = [-along[1], along[0]];
  const begin = clearance(from, along), end = length - clearance(to, along) - 2;
  const tip = Math.min(10, Math.max(0, (end - begin) / 3));
  const at =
      (distance, aside) => [0, 1].map((axis) => [from.x, from.y][axis] + along[axis] * distance + right[axis] * aside);
  const corners = [
    at(begin, 1), at(end, 1), at(end - tip, width + Math.min(4, width)), at(end - tip, width + 1), at(begin, width + 1)
  ];
  return `M${corners.map((corner) => corner.map((value) => value.toFixed(1)).join(",")).join("L")}Z`;
};

// From a box's centre to its edge, in this direction.
const clearance = ({width, isPoint}, [x, y]) =>
    isPoint ? 0 : Math.min(Math.abs(width / 2 / (x || 1e-9)), Math.abs(12 / (y || 1e-9))) + 3;

// The vertices with their places; `inner` and `outer` are the half axes of the ovals of devices and of NICs.
const placed = (graph, inner, outer) => {
  const spot = graph.vertices.map((vertex) => ({...vertex, near: []}));
  graph.links.forEach(({from, to}) => (spot[from].near.push(spot[to]), spot[to].near.push(spot[from])));
  graph.order.forEach((device, place) => {
    const at = onOval(inner, (2 * Math.PI * (place + 0.5)) / graph.order.length - Math.PI / 2);
    Object.assign(spot[device], at, {fx: at.x, fy: at.y});
  });
  const others = spot.filter(({kind}) => kind !== "device");
  others.forEach((vertex, index) => {
    const devices = vertex.near.filter(({kind}) => kind === "device");
    const x = d3.mean(devices, (device) => device.x) || 0, y = d3.mean(devices, (device) => device.y) || 0;
    const isCentral = Math.hypot(x, y) < inner.x / 20;
    const angle = isCentral ? (2 * Math.PI * (index + 0.5)) / others.length : Math.atan2(y / inner.y, x / inner.x);
    // Those with the same neighbours would lie at one point: each starts a little aside.
    vertex.target = vertex.kind === "nic" ? onOval(outer, angle + index / 1000) : {x: x * 0.5 + index / 10, y: y * 0.5};
    Object.assign(vertex, vertex.target);
  });
  const toTarget = (axis) => ({target, [axis]: own}) => (target ? target[axis] : own);
  d3.forceSimulation(spot)
      .force("apart", d3.forceCollide(30))
      .force("x", d3.forceX(toTarget("x")))
      .force("y", d3.forceY(toTarget("y")))
      .stop()
      .tick(150);
  return spot;
};

// A little fuller than an ellipse.
const onOval = ({x, y}, angle) => {
  const fuller = (value) => Math.sign(value) * Math.pow(Math.abs(value), 0.8);
  return {x: x * fuller(Math.cos(angle)), y: y * fuller(Math.sin(angle))};
};

// The devices in an order round the oval, device 0 first, in which few links cross, and wide ones are short: each
// device comes where it is best, then parts of the order are turned round as long as that helps.
const ringOrder = (devices, links) => {
  const best = (orders) => orders[d3.scan(orders.map((order) => tangle(order, links)))];
  let order = [];
  for (const device of devices)
    order = best(d3.range(Math.min(1, order.length), order.length + 1)
                     .map((place) => [...order.slice(0, place), device, ...order.slice(place)]));
  for (let before; before !== order;) {
    before = order;
    order = best([
      order,
      ...pairsOf(order.length)
          .filter(([i]) => i > 0)
          .map(([i, j]) => [...before.slice(0, i), ...before.slice(i, j + 1).reverse(), ...before.slice(j + 1)])
    ]);
  }
  return order.length > 2 && order[1] > order[order.length - 1] ? [order[0], ...order.slice(1).reverse()] : order;
};

const pairsOf = (number) => d3.range(number).flatMap((i) => d3.range(i + 1, number).map((j) => [i, j]));

// Links that cross, and the length of all. Of the links between devices of the order.
const tangle = (order, links) => {
  const place = new Map(order.map((device, index) => [device, index]));
  const chords = links.filter(({from, to}) => place.has(from) && place.has(to))
                     .map(({from, to, count}) => [...[place.get(from), place.get(to)].sort((a, b) => a - b), count]);
  const crossings = d3.sum(pairsOf(chords.length), ([i, j]) => {
    const [a, b] = chords[i], [c, d] = chords[j];
    return (a < c && c < b && b < d) || (c < a && a < d && d < b);
  });
  return crossings + 0.2 * d3.sum(chords, ([a, b, count]) => Math.sqrt(count) * Math.min(b - a, order.length - b + a));
};

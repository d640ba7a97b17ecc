// Numbers as people read them. Kolo's units: KiB and so on for sizes, GB/s of 1e9 bytes for bandwidths.
"use strict";

// Three significant digits, without an exponent; whole numbers stay whole.
const digits = (value) => {
  if (value === 0 || Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
};

// What would be shown as a whole unit of the next kind is shown in that.
const scaled = (value, units, step) => {
  let index = 0;
  while (index + 1 < units.length && Math.abs(value) >= step - 0.5) (value /= step), ++index;
  return `${digits(value)} ${units[index]}`;
};

const bytesText = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);

const timeText = (seconds) => seconds === 0 ? "0" :
    seconds >= 1                            ? `${digits(seconds)} s` :
                                              scaled(seconds * 1e9, ["ns", "µs", "ms", "s"], 1000);

const bandwidthText = (bytesPerSecond) => `${digits(bytesPerSecond / 1e9)} GB/s`;

const percentText = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${Number((share * 100).toPrecision(3))} %`);

const countText = (count) => count.toLocaleString("en");

// "link GCD 0 -> GCD 1", whose numbers stay with what they number.
const nameText = (name) => name.replace("->", "→").replace(/ (?=\d|→)/g, "\u00a0");

// Long names in the language's case may break before a capital.
const breakable = (name) => name.replace(/([a-z])(?=[A-Z])/g, "$1\u200b");

// "all_gather" -> "All-gather"
const collectiveText = (collective) => {
  const words = (collective || "collective").replace(/_/g, "-");
  return words[0].toUpperCase() + words.slice(1);
};

// {pipeline: 4, protocol: "ll"} -> "pipeline 4, protocol ll"
const scheduleText = (schedule) =>
    Object.entries(schedule || {}).map(([name, value]) => `${name}\u00a0${value}`).join(", ");

// Queues: depth, age, paused or not; and the cluster's settings.

import { get, part, post, put } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { count, duration, short } from "../format.js";
import { order } from "../job_orders.js";
import { list } from "../lists.js";
import { can } from "../me.js";
import { ask, badge, button, card, command, empty, facts, field, pageHead } from "../parts.js";
import { t } from "../words.js";

const NUMBERS = ["blocked", "waiting", "delayed", "running", "ok", "failed", "dead"];
const KNOWN = [...NUMBERS, "cancelled", "name", "paused", "oldest_wait_ms"];

export function open(root, { signal }) {
  const queues = list({
    path: "/queues", rows: "queues", signal, label: t("queues.title"), key: (row) => row.name, testid: "queues",
    columns: [
      { label: t("field.queue"), cell: (row) => h("div", {}, h("a", { class: "wrap", href: `/jobs?queue=${encodeURIComponent(row.name)}` }, row.name), policyOf(row)) },
      { label: t("field.state"), cell: (row) => (row.paused ? badge("warn", "pause", t("queues.paused")) : badge("good", "running", t("queues.serving"))) },
      ...NUMBERS.map((state) => ({ label: t(`state.${state}`), class: "right", cell: (row) => h("span", { title: count(row[state]) }, short(row[state])) })),
      { label: t("queues.oldest"), class: "right nowrap", cell: (row) => (row.oldest_wait_ms ? duration(row.oldest_wait_ms) : "–") },
      { label: "", class: "right nowrap", cell: (row) => toggle(row, () => queues.load()) },
    ],
    blank: () => empty("queues", t("queues.none"), t("queues.none.text"), command("rollq submit PROGRAM --queue NAME")),
  });
  const settings = h("div", { class: "stack" });
  fill(root, pageHead(t("queues.title"), t("queues.lead")), queues.node, card(t("settings.title"), settings));
  const again = ask(settings, () => get("/settings", {}, signal), (told) => fill(settings, settingsOf(told, () => again())), signal);
}

/** The policy and limits of a queue. */
function policyOf(row) {
  const said = Object.entries(row).filter(([name, value]) => !KNOWN.includes(name) && value !== null && value !== "" && typeof value !== "object");
  return said.length > 0 && h("span", { class: "tags", "aria-label": t("queues.policy") },
    said.map(([name, value]) => h("span", { class: "tag" }, `${name} ${name.endsWith("_ms") ? duration(value) : value}`)));
}

function toggle(row, then) {
  const verb = row.paused ? "resume" : "pause";
  const send = (which) => order(() => post(`/queues/${part(row.name)}/${which}`), () => t(`queues.${which}.done`, { name: row.name }), then);
  return button(t(`queues.${verb}`), () => send(verb), {
    sign: row.paused ? "running" : "pause", kind: "small", disabled: !can("queues.pause"), testid: verb,
  });
}

const shown = (name, value) => {
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  return name.endsWith("_ms") ? duration(value) : count(value);
};

function settingsOf(told, then) {
  return [
    facts(Object.entries(told).map(([name, value]) => [h("code", {}, name), shown(name, value)])),
    h("div", { class: "actions" }, button(t("settings.change"), () => change(told, then), { sign: "edit", disabled: !can("settings.write"), testid: "settings" })),
  ];
}

async function change(told, then) {
  const inputs = Object.entries(told).map(([name, value]) => {
    const isSwitch = typeof value === "boolean";
    const input = h("input", isSwitch ? { type: "checkbox", name, checked: value } : { type: "number", min: 0, step: 1, name, value });
    return [name, isSwitch, input];
  });
  const body = h("div", { class: "fields" }, inputs.map(([name, , input]) => field(name, input)));
  if (!await confirm({ title: t("settings.change"), text: t("settings.text"), yes: t("settings.save"), body })) return;
  const next = Object.fromEntries(inputs.map(([name, isSwitch, input]) => [name, isSwitch ? input.checked : Number(input.value)]));
  order(() => put("/settings", next), () => t("settings.saved"), then);
}

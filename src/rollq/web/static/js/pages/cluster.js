// The members of the group: leader, lag, alarms; add, remove, transfer leadership.

import { get, part, post, remove } from "../api.js";
import { confirm } from "../dialog.js";
import { fill, h } from "../dom.js";
import { bytes, count, duration } from "../format.js";
import { keepFresh } from "../fresh.js";
import { order } from "../job_orders.js";
import { can } from "../me.js";
import { ask, badge, button, callout, card, command, facts, field, pageHead } from "../parts.js";
import { table } from "../table.js";
import { t } from "../words.js";

export function open(root, { signal }) {
  const body = h("div", { class: "stack" });
  const alarms = h("div", { class: "stack", dataset: { testid: "alarms" } });
  const side = h("div", { class: "stack" });
  let leaderId = "";
  const members = table({
    label: t("cluster.members"), key: (row) => row.id, testid: "members",
    columns: [
      { label: t("cluster.address"), cell: (row) => h("div", {}, h("strong", {}, row.address), h("div", { class: "small muted mono" }, row.id)) },
      { label: t("cluster.role"), cell: (row) => roleOf(row, leaderId) },
      { label: t("cluster.active"), cell: (row) => (row.active || row.id === leaderId ? badge("good", "ok", t("cluster.up")) : badge("bad", "lost", t("cluster.silent"))) },
      { label: t("cluster.match"), class: "right nowrap", cell: (row) => h("div", {}, count(row.match), h("div", { class: "small muted" }, row.lag === null ? "–" : t("cluster.behind", { n: row.lag }))) },
      { label: t("cluster.skew"), class: "right nowrap", cell: (row) => duration(Math.abs(row.clock_skew_ms ?? 0)) },
      { label: t("cluster.disk"), class: "roomy", cell: (row) => diskOf(row.disk) },
      { label: "", class: "right nowrap", cell: (row) => actionsOf(row, row.id === leaderId, () => again()) },
    ],
  });
  const show = (told) => {
    leaderId = told.leader_id;
    fill(alarms, (told.alarms ?? []).map((one) => callout("bad", "warn", one.text, one.todo && h("p", {}, one.todo))));
    members.update((told.members ?? []).map((one) => ({ ...one, leads: one.id === leaderId })));
    fill(side, facts([
      [t("cluster.leader.name"), told.leader], [t("cluster.term"), count(told.term)], [t("cluster.commit"), count(told.commit)],
      [t("cluster.applied"), count(told.applied)], [t("cluster.last"), count(told.last_index)],
      [t("cluster.state_hash"), h("code", { class: "wrap" }, told.state_hash)],
    ]));
    if (!members.node.isConnected) fill(body, alarms, h("div", { class: "card flush" }, members.node), card(t("cluster.log"), side));
  };
  fill(root, pageHead(t("cluster.title"), t("cluster.lead"),
    button(t("cluster.add"), () => add(() => again()), { sign: "submit", disabled: !can("cluster.change"), testid: "add-member" })), body);
  const again = ask(body, () => get("/cluster", {}, signal), show, signal);
  keepFresh(again, signal, 2_000);
}

function roleOf(row, leaderId) {
  if (row.id === leaderId) return badge("good", "leader", t("cluster.leader"));
  return badge(row.role === "learner" ? "delayed" : "cancelled", row.role === "learner" ? "delayed" : "cluster", t(row.role === "learner" ? "cluster.learner" : "cluster.follower"));
}

function diskOf(disk) {
  if (!disk) return h("span", { class: "muted" }, t("cluster.disk.unknown"));
  const parts = ["log", "snapshot", "history", "blob", "other"].filter((name) => disk[`${name}_bytes`]);
  const texts = parts.map((name) => t(`cluster.disk.${name}`, { size: bytes(disk[`${name}_bytes`]) }));
  return h("div", { dataset: { testid: "member-disk" } },
    h("div", { class: "nowrap" }, t("cluster.disk.free", { free: bytes(disk.free_bytes), total: bytes(disk.total_bytes) })),
    h("div", { class: "small muted" }, t("cluster.disk.used", { used: bytes(disk.used_bytes), parts: texts.join(" · ") })));
}

function actionsOf(row, isLeader, then) {
  const transfer = async () => {
    const yes = await confirm({ title: t("cluster.transfer.title", { address: row.address }), text: t("cluster.transfer.text"), yes: t("cluster.transfer") });
    if (yes) order(() => post("/cluster/transfer", { id: row.id }), () => t("cluster.transfer.done", { address: row.address }), then);
  };
  const drop = async () => {
    const yes = await confirm({ title: t("cluster.remove.title", { address: row.address }), text: t("cluster.remove.text"), yes: t("cluster.remove"), danger: true });
    if (yes) order(() => remove(`/cluster/members/${part(row.id)}`), () => t("cluster.remove.done", { address: row.address }), then);
  };
  const disabled = !can("cluster.change");
  return h("div", { class: "actions" },
    !isLeader && row.role !== "learner" && button(t("cluster.transfer"), transfer, { sign: "leader", kind: "small", disabled, testid: "transfer" }),
    button(t("cluster.remove"), drop, { sign: "close", kind: "small danger", disabled, testid: "remove" }));
}

async function add(then) {
  const address = h("input", { required: true, placeholder: "10.0.0.4:5000", spellcheck: "false", dataset: { testid: "member-address" } });
  const id = h("input", { required: true, inputmode: "numeric", pattern: "[0-9]+", spellcheck: "false", dataset: { testid: "member-id" } });
  const body = h("div", { class: "form" }, h("p", {}, t("cluster.add.text")), command("rollq leader PORT --host ADDRESS --group GROUP --peers MEMBERS"),
    field(t("cluster.address"), address), field(t("field.id"), id, t("cluster.id.help")));
  if (!await confirm({ title: t("cluster.add"), yes: t("cluster.add"), body })) return;
  order(() => post("/cluster/members", { id: id.value.trim(), address: address.value.trim() }), () => t("cluster.add.done", { address: address.value }), then);
}

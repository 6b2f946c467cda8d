// The current state of the grid: rates, queue depth, members, and what needs attention.

import { get } from "../api.js";
import { lineChart } from "../chart.js";
import { fill, h, icon } from "../dom.js";
import { ago, count, duration, rate, short } from "../format.js";
import { lastOverview, onLive } from "../live.js";
import { badge, button, callout, card, command, errorNote, pageHead, skeleton, stat } from "../parts.js";
import { go } from "../router.js";
import { t } from "../words.js";

const MEMBERS_SHOWN = 9;

export function open(root, { signal }) {
  const alarms = h("div", { class: "stack", dataset: { testid: "alarms" } });
  const figures = h("div", { class: "stats", dataset: { testid: "figures" } });
  const cluster = h("div", { class: "stack" });
  const changes = h("ul", { class: "stack small muted", "aria-live": "polite", dataset: { testid: "leader-changes" } });
  const [rates, depth] = [ratesChart(), depthChart()];
  let leader = "";

  const show = (said) => {
    fill(alarms, notices(said));
    fill(figures, statsOf(said));
    fill(cluster, clusterLine(said.cluster));
    const points = said.history ?? [];
    rates.update(points);
    depth.update(points);
    const now = said.cluster?.leader ?? "";
    if (leader && now && now !== leader) {
      changes.prepend(h("li", {}, ago(Date.now()), " ", t("overview.changed", { from: leader, to: now })));
    }
    leader = now || leader;
  };

  const page = [
    pageHead(t("overview.title"), "", button(t("submit.title"), () => go("/submit"), { sign: "submit", kind: "primary" })),
    alarms, figures,
    h("div", { class: "grid" }, card(t("overview.rates"), rates.node), card(t("overview.depth"), depth.node)),
    card(t("overview.cluster"), cluster, changes),
  ];
  const first = (said) => {
    fill(root, page);
    show(said);
  };
  fill(root, pageHead(t("overview.title"), ""), skeleton(8));
  const load = () => get("/overview", {}, signal).then(first, (error) => {
    if (!signal.aborted && !alarms.isConnected) fill(root, pageHead(t("overview.title"), ""), errorNote(error, load));
  });
  if (lastOverview) first(lastOverview);
  else load();
  onLive("overview", (said) => (alarms.isConnected ? show(said) : first(said)), signal);
}

function statsOf(said) {
  const counts = said.counts ?? {};
  const now = said.rates ?? {};
  const workers = said.workers ?? {};
  const ahead = (workers.running ?? 0) - (workers.busy ?? 0);
  const second = t("unit.per_s");
  const state = (name, note = "") => stat({
    name: t(`state.${name}`), sign: name, state: name, value: short(counts[name] ?? 0), note,
    href: name === "dead" ? "/dead" : `/jobs?state=${name}`, testid: `count-${name}`,
  });
  return [
    state("waiting", said.oldest_wait_ms ? t("overview.oldest", { age: duration(said.oldest_wait_ms) }) : ""),
    state("running"),
    stat({ name: t("overview.accepted"), value: rate(now.accepted), unit: second, testid: "rate-accepted" }),
    stat({ name: t("overview.ended"), value: rate(now.ended), unit: second, testid: "rate-ended" }),
    state("failed", t("overview.rate", { rate: rate(now.failed) })),
    state("dead"),
    state("delayed"),
    state("blocked"),
    stat({
      name: t("workers.title"), sign: "workers", href: "/workers", value: count(workers.connected), testid: "workers",
      note: t("overview.slots", { busy: workers.busy ?? 0, slots: workers.slots ?? 0 })
        + (ahead ? ` · ${t("overview.ahead", { n: ahead })}` : "")
        + (workers.draining ? ` · ${t("overview.draining", { n: workers.draining })}` : ""),
    }),
  ];
}

function ratesChart() {
  return lineChart({
    label: t("overview.rates"), unit: t("overview.jobs_per_s"), ends: span,
    series: [
      { name: "accepted", state: "running", words: t("overview.accepted") },
      { name: "ended", state: "ok", words: t("overview.ended") },
      { name: "failed", state: "failed", words: t("state.failed") },
    ],
  });
}

function depthChart() {
  return lineChart({
    label: t("overview.depth"), unit: t("overview.jobs_unit"), ends: span,
    series: [
      { name: "waiting", state: "waiting", words: t("state.waiting") },
      { name: "running", state: "running", words: t("state.running") },
    ],
  });
}

function span(first, last) {
  const seconds = Math.round((last.t - first.t) / 1000);
  return [t("chart.before", { n: seconds }), t("chart.now")];
}

/** The leader, and whether the group tolerates another failure. */
function clusterLine(cluster) {
  if (!cluster || !(cluster.members ?? []).length) return h("p", { class: "muted" }, t("overview.no_cluster"));
  const members = cluster.members;
  const voters = members.filter((one) => one.role !== "learner");
  const active = voters.filter((one) => one.active || isLeader(one, cluster)).length;
  const spare = active - (Math.floor(voters.length / 2) + 1);
  const line = spare > 0
    ? badge("good", "ok", t("overview.spare", { n: spare }))
    : badge(spare < 0 ? "bad" : "warn", "warn", spare < 0 ? t("overview.no_majority") : t("overview.no_spare"));
  return [
    h("div", { class: "actions", dataset: { testid: "failover" } },
      line, h("span", { class: "muted" }, t("overview.term", { term: cluster.term ?? 0, active, all: voters.length }))),
    h("ul", { class: "tags" }, members.slice(0, MEMBERS_SHOWN).map((one) => h("li", { class: "tag" },
      isLeader(one, cluster) && [icon("leader"), " "], one.address, " · ",
      t(isLeader(one, cluster) ? "cluster.leader" : one.active ? "cluster.follower" : "cluster.silent"),
      !isLeader(one, cluster) && one.active ? ` · ${t("cluster.behind", { n: one.lag })}` : ""))),
  ];
}

function isLeader(member, cluster) {
  return member.id === cluster.leader_id || member.role === "leader";
}

/** What needs attention: alarms of the group, and jobs that no worker can run. */
function notices(said) {
  const alarms = (said.alarms ?? []).map((one) => callout("bad", "warn", one.text, one.todo && h("span", {}, one.todo)));
  const unserved = (said.unserved ?? []).map((one) => callout("warn", "warn",
    t("overview.unserved", { n: one.waiting, queue: one.queue }),
    one.lacks ? h("span", {}, one.lacks) : one.workers
      ? h("span", {}, t("overview.unserved.program", { program: one.program, workers: one.workers }))
      : [h("span", {}, t("overview.unserved.queue")), command(`rollq worker HOST PORT ${one.queue}`)]));
  return [...alarms, ...unserved];
}

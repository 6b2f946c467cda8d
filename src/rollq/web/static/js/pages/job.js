// One job: state and explanation, events, output, files, request, actions.

import { address, get, part } from "../api.js";
import { fill, h, icon } from "../dom.js";
import { ago, bytes, clock, count, duration, shortId } from "../format.js";
import { keepFresh } from "../fresh.js";
import { cancelJobs, isShown, redriveEdited, redriveJobs, runAgain } from "../job_orders.js";
import { onLive, watchJob } from "../live.js";
import { can } from "../me.js";
import { outputOf } from "../output.js";
import { button, callout, card, causeWords, command, copy, empty, ENDED, errorNote, facts, skeleton, stateBadge } from "../parts.js";
import { timeline } from "../timeline.js";
import { t } from "../words.js";

const EXPLAIN = { failed: "bad", dead: "bad", blocked: "warn", waiting: "warn", delayed: "warn", cancelled: "warn" };

export function open(root, { params, signal }) {
  const id = params.id;
  const [head, why, side, events, files, raw] = Array.from({ length: 6 }, () => h("div", { class: "stack" }));
  const output = outputOf(id, signal);
  let seen = "";
  let job = null;

  const load = async () => {
    try {
      job = await get(`/jobs/${part(id)}`, {}, signal);
      if (signal.aborted) return;
      if (!head.isConnected) frame();
      show();
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted || head.isConnected) return;
      fill(root, error.status === 404 ? unknown(id, error) : errorNote(error, load));
    }
  };

  const frame = () => fill(root, head, why, h("div", { class: "columns" },
    h("div", { class: "stack" }, card(t("job.output"), output.node), card(t("job.files"), files), card(t("job.request"), raw)),
    h("div", { class: "stack" }, card(t("job.facts"), side), card(t("job.timeline"), events))));

  const show = () => {
    fill(head, headOf(job, load));
    fill(side, factsOf(job));
    const now = [job.state, job.attempt, job.changed_ms].join();
    if (now === seen) return;
    const isEnd = ENDED.includes(job.state);
    seen = now;
    fill(raw, requestOf(job));
    if (isEnd) output.load();
    else if (job.state === "running") output.follow();
    drawEvents();
    drawFiles();
    drawWhy();
  };

  const drawEvents = async () => {
    const told = await get(`/jobs/${part(id)}/timeline`, {}, signal).catch(() => null);
    if (!signal.aborted) fill(events, timeline(told?.events ?? fromAttempts(job)));
  };

  const drawFiles = async () => {
    const told = await get(`/jobs/${part(id)}/files`, {}, signal).catch(() => null);
    if (!signal.aborted) fill(files, filesOf(job, told));
  };

  const drawWhy = async () => {
    if (job.state === "ok" || job.state === "running") return void fill(why);
    const told = await get(`/jobs/${part(id)}/explain`, {}, signal).catch(() => null);
    if (signal.aborted || !told?.why) return;
    const level = EXPLAIN[job.state] ?? "warn";
    fill(why, h("div", { dataset: { testid: "explain" } }, callout(level, level === "bad" ? "warn" : "info",
      t(ENDED.includes(job.state) ? "job.why_ended" : "job.why_waits"),
      h("p", {}, told.why), (told.todo ?? []).map(advice))));
  };

  fill(root, skeleton(10));
  watchJob(id);
  load();
  onLive("job", (told) => (told.id ?? id) === id && load(), signal);
  keepFresh(async () => {
    if (job && ENDED.includes(job.state)) return;
    await load();
    if (job && job.state !== "running") await drawWhy();
  }, signal);
}

function headOf(job, again) {
  const isEnd = ENDED.includes(job.state);
  return h("header", { class: "page-head", dataset: { testid: "job-head", state: job.state } },
    h("h1", {}, t("job.title"), " ", h("span", { class: "mono", title: job.id }, shortId(job.id))),
    h("button", { class: "button small quiet bare", type: "button", "aria-label": t("copy.what", { what: job.id }), onclick: () => copy(job.id) }, icon("copy")),
    stateBadge(job.state), job.cancel_requested && !isEnd && h("span", { class: "muted" }, t("job.cancel_asked")),
    h("div", { class: "actions" },
      !isEnd && button(t("order.cancel"), () => cancelJobs([job.id], again), { sign: "cancelled", kind: "danger", disabled: !can("jobs.cancel"), testid: "cancel" }),
      job.state === "dead" && [
        button(t("order.redrive"), () => redriveJobs([job.id], again), { sign: "redrive", kind: "primary", disabled: !can("jobs.redrive"), testid: "redrive" }),
        button(t("order.redrive_edited"), () => redriveEdited(job, again), { sign: "edit", disabled: !can("jobs.redrive") || !isShown(job), title: isShown(job) ? null : t("again.payload"), testid: "redrive-edited" }),
      ],
      button(t("order.again"), () => runAgain(job), { sign: "again", disabled: !can("jobs.submit") || !isShown(job), title: isShown(job) ? null : t("again.payload"), testid: "again" })),
    h("p", { class: "lead mono" }, lineOf(job)));
}

function lineOf(job) {
  const asked = job.request ?? {};
  return [job.exec, ...(asked.args ?? [])].join(" ") + (asked.cut ? " …" : "");
}

function factsOf(job) {
  const end = job.end ?? {};
  const options = Object.entries(job.options ?? {});
  return facts([
    [t("field.id"), h("span", { class: "mono wrap", dataset: { testid: "job-id" } }, job.id)],
    [t("field.exec"), job.exec],
    [t("field.queue"), h("a", { href: `/jobs?queue=${encodeURIComponent(job.queue)}` }, job.queue)],
    [t("field.client"), job.client],
    [t("field.key"), job.key],
    [t("field.changed"), h("span", {}, clock(job.changed_ms), " · ", ago(job.changed_ms))],
    [t("field.attempt"), count(job.attempt ?? 0)],
    [t("field.worker"), job.worker && h("a", { class: "mono", href: `/workers?id=${job.worker}` }, shortId(job.worker))],
    [t("job.array"), job.array && h("a", { class: "mono", href: `/arrays/${job.array}` }, shortId(job.array))],
    [t("job.exit_code"), end.exit_code === null || end.exit_code === undefined ? "" : String(end.exit_code)],
    [t("job.signal"), end.signal ? `${end.signal_name || end.signal}` : ""],
    [t("job.cause"), end.cause && causeWords(end.cause)],
    [t("job.detail"), end.detail],
    [t("field.run"), job.end && duration(end.run_ms)],
    [t("job.memory"), end.peak_bytes && bytes(end.peak_bytes)],
    [t("job.lease"), job.lease_ms && duration(job.lease_ms)],
    [t("job.delay"), job.delay_ms && duration(job.delay_ms)],
    [t("job.options"), options.length && h("span", { class: "tags" }, options.map(([name, value]) =>
      h("span", { class: "tag mono" }, `${name} ${name.endsWith("_ms") ? duration(value) : plain(value)}`)))],
  ]);
}

const plain = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** Lost attempts, where there is no explanation. */
function fromAttempts(job) {
  return (job.attempts ?? []).map((one) => ({ ts_ms: 0, event: one.cause, attempt: one.attempt, detail: one.detail }));
}

function filesOf(job, told) {
  const inputs = told?.inputs ?? job.request?.files ?? [];
  const outputs = told?.outputs ?? (job.end?.files ?? []).map((name) => ({ name }));
  if (!inputs.length && !outputs.length) return h("p", { class: "muted" }, t("job.no_files"));
  const line = (one, kind) => h("li", { class: "actions" }, icon("files"),
    kind === "input" && !one.kept ? h("span", { class: "wrap" }, one.name) : h("a", { class: "wrap", href: address(`/jobs/${part(job.id)}/files/${one.name.split("/").map(part).join("/")}`, { kind }), download: one.name.split("/").at(-1) }, one.name),
    h("span", { class: "muted small" }, t(`job.file.${kind}`), one.bytes >= 0 ? ` · ${bytes(one.bytes)}` : ""));
  return h("ul", { class: "stack", dataset: { testid: "files" } }, inputs.map((one) => line(one, "input")), outputs.map((one) => line(one, "output")));
}

function requestOf(job) {
  const said = JSON.stringify({ exec: job.exec, queue: job.queue, ...job.request, options: job.options }, null, 2);
  return h("details", {}, h("summary", {}, t("job.raw", { size: bytes(job.body_bytes) })), h("pre", { class: "output" }, said));
}

/** A hint: a command to copy, or a sentence. */
function advice(text) {
  return text.startsWith("rollq ") ? command(text) : h("p", {}, text);
}

function unknown(id, error) {
  return empty("search", t("job.unknown", { id: shortId(id) }), error.todo || error.message,
    h("a", { class: "button", href: "/jobs" }, t("jobs.show_all")));
}

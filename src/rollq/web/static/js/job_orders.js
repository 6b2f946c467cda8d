// Actions on jobs: cancel, redrive, run again with other arguments. Irreversible ones are confirmed;
// the outcome is shown as a toast.

import { part, post } from "./api.js";
import { confirm } from "./dialog.js";
import { h } from "./dom.js";
import { shortId } from "./format.js";
import { field } from "./parts.js";
import { go } from "./router.js";
import { done, failed } from "./toasts.js";
import { t } from "./words.js";
import { argsOf, linesOf, pairsOf } from "./arguments.js";

/** Cancel jobs, after confirmation. */
export async function cancelJobs(ids, then = () => {}) {
  const yes = await confirm({ title: t("cancel.title", { n: ids.length }), text: t("cancel.text"), yes: t("cancel.yes", { n: ids.length }), danger: true });
  if (!yes) return;
  await order(() => (ids.length === 1 ? post(`/jobs/${part(ids[0])}/cancel`) : post("/jobs/cancel", { ids })),
    (answer) => t("cancel.done", { n: answer.count ?? ids.length }), then);
}

/** Redrive dead jobs: the same ids, with new attempts. */
export async function redriveJobs(ids, then = () => {}) {
  await order(() => (ids.length === 1 ? post(`/jobs/${part(ids[0])}/redrive`) : post("/jobs/redrive", { ids })),
    (answer) => t("redrive.done", { n: answer.count ?? ids.length }), then);
}

/** Redrive one job with other arguments; it keeps its id. */
export async function redriveEdited(job, then = () => {}) {
  const said = await askArguments(job, t("redrive.title", { id: shortId(job.id) }), t("order.redrive"));
  if (said) await order(() => post(`/jobs/${part(job.id)}/redrive`, said), () => t("redrive.done", { n: 1 }), then);
}

/** Run a job again with other arguments, as a new job. */
export async function runAgain(job) {
  const said = await askArguments(job, t("again.title"), t("order.again"));
  if (said) await order(() => post(`/jobs/${part(job.id)}/again`, said), () => t("again.done"), (answer) => answer.id && go(`/jobs/${answer.id}`));
}

/** Run an action, and show its outcome. */
export async function order(act, words, then = () => {}) {
  try {
    const answer = await act();
    done(words(answer));
    await then(answer);
  } catch (error) {
    failed(error);
  }
}

/** Whether the request of a job is complete enough to run it with other arguments. */
export const isShown = (job) => !("payload_bytes" in (job.request ?? {}));

async function askArguments(job, title, yes) {
  const asked = job.request ?? {};
  const args = h("textarea", { rows: 5, spellcheck: "false", dataset: { testid: "args" } });
  args.value = linesOf(asked.args ?? []);
  const env = h("textarea", { rows: 3, spellcheck: "false", placeholder: "NAME=value", dataset: { testid: "env" } });
  const body = h("div", { class: "form" },
    field(t("field.args"), args, t("field.args.help")),
    field(t("field.env"), env, (asked.env ?? []).length ? t("again.env", { names: asked.env.join(", ") }) : t("field.env.help")),
    asked.cut && h("p", { class: "muted" }, t("again.cut")));
  if (!await confirm({ title, yes, body })) return null;
  const said = {};
  if (args.value !== linesOf(asked.args ?? [])) said.args = argsOf(args.value);
  if (env.value.trim()) said.env = pairsOf(env.value);
  return said;
}

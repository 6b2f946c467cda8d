// A form for one job.

import { post, postForm } from "../api.js";
import { argsOf, pairsOf } from "../arguments.js";
import { fill, h, icon } from "../dom.js";
import { bytes, shortId } from "../format.js";
import { field, pageHead } from "../parts.js";
import { go } from "../router.js";
import { done } from "../toasts.js";
import { t } from "../words.js";

const SECOND = 1_000;

export function open(root, { query }) {
  const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", dataset: { testid: `submit-${name}` }, ...props });
  const number = (name, props = {}) => input(name, { type: "number", min: 0, step: "any", ...props });
  const exec = input("exec", { required: true, value: query.exec ?? "" });
  const args = h("textarea", { name: "args", rows: 4, spellcheck: "false", dataset: { testid: "submit-args" } });
  const env = h("textarea", { name: "env", rows: 3, spellcheck: "false", placeholder: "NAME=value", dataset: { testid: "submit-env" } });
  const files = h("input", { type: "file", multiple: true, dataset: { testid: "submit-files" } });
  const chosen = h("ul", { class: "small muted" });
  const wrong = h("div", { role: "alert" });
  const send = h("button", { class: "button primary", dataset: { testid: "submit" } }, icon("submit"), t("submit.send"));
  files.addEventListener("change", () => fill(chosen, [...files.files].map((one) => h("li", {}, `${one.name} · ${bytes(one.size)}`))));

  const form = h("form", { class: "form" },
    h("section", { class: "card", "aria-label": t("submit.what") }, h("h2", {}, t("submit.what")),
      h("div", { class: "grid" },
        h("div", { class: "form" }, field(t("field.exec"), exec, t("submit.exec.help")), field(t("field.queue"), input("queue", { value: query.queue ?? "" }), t("submit.queue.help"))),
        field(t("field.args"), args, t("field.args.help"))),
      h("div", { class: "grid" }, field(t("field.env"), env, t("field.env.help")),
        h("div", { class: "stack" }, field(t("submit.files"), files, t("submit.files.help")), chosen))),
    h("section", { class: "card", "aria-label": t("submit.how") }, h("h2", {}, t("submit.how")),
      h("div", { class: "fields" },
        field(t("field.key"), input("key"), t("submit.key.help")),
        field(t("submit.priority"), number("priority", { max: 9, step: 1 }), t("submit.priority.help")),
        field(t("submit.delay"), number("delay")),
        field(t("submit.max_attempts"), number("max_attempts", { step: 1 })),
        field(t("submit.run_max"), number("run_max")),
        field(t("submit.expire"), number("expire")),
        field(t("submit.worker"), input("worker")),
        field(t("submit.retry_codes"), input("retry_codes", { inputmode: "numeric", pattern: "[0-9, ]*" }), t("submit.retry_codes.help")))),
    wrong, h("div", { class: "actions" }, send));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    fill(wrong);
    try {
      const answer = await sent(asked(form), [...files.files]);
      done(t("submit.done", { id: shortId(answer.id) }));
      go(`/jobs/${answer.id}`);
    } catch (error) {
      fill(wrong, h("p", { class: "callout", dataset: { state: "bad" } }, icon("warn"),
        h("span", {}, h("strong", {}, error.message), error.todo && ` ${error.todo}`)));
    } finally {
      send.disabled = false;
    }
  });

  fill(root, pageHead(t("submit.title"), t("submit.lead")), form);
  exec.focus();
}

/** The values of the form, as the API takes them; empty ones are left out. */
function asked(form) {
  const said = new FormData(form);
  const text = (name) => String(said.get(name) ?? "").trim();
  const ms = (name) => Math.round(Number(text(name)) * SECOND);
  const options = {
    priority: Number(text("priority")), delay_ms: ms("delay"), max_attempts: Number(text("max_attempts")),
    run_ms_max: ms("run_max"), expire_ms: ms("expire"), worker_name: text("worker"),
    retry_exit_codes: text("retry_codes").split(/[\s,]+/).filter(Boolean).map(Number),
  };
  const job = { exec: text("exec"), args: argsOf(String(said.get("args") ?? "")) };
  if (text("queue")) job.queue = text("queue");
  if (text("key")) job.key = text("key");
  if (text("env")) job.env = pairsOf(String(said.get("env")));
  const set = Object.entries(options).filter(([, value]) => (Array.isArray(value) ? value.length : value));
  if (set.length) job.options = Object.fromEntries(set);
  return job;
}

function sent(job, files) {
  if (!files.length) return post("/jobs", job);
  const form = new FormData();
  form.append("job", JSON.stringify(job));
  for (const one of files) form.append("files", one, one.name);
  return postForm("/jobs", form);
}

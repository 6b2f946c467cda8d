// Accounts and rights, access checks, and the audit log.

import { get } from "../api.js";
import { fill, h, icon } from "../dom.js";
import { ago, clock } from "../format.js";
import { list } from "../lists.js";
import { badge, card, codeWords, command, empty, field, pageHead } from "../parts.js";
import { t } from "../words.js";

export function open(root, { signal }) {
  const accounts = list({
    path: "/access/accounts", rows: "accounts", signal, everyMs: 15_000, label: t("access.accounts"), key: (row) => row.name, testid: "accounts",
    columns: [
      { label: t("access.account"), cell: (row) => h("strong", { class: "wrap" }, row.name) },
      { label: t("field.state"), cell: (row) => (row.disabled ? badge("warn", "cancelled", t("access.disabled")) : badge("good", "ok", t("access.enabled"))) },
      { label: t("access.roles"), cell: (row) => tags(row.roles) },
      { label: t("access.rules"), cell: (row) => tags(row.rules) },
      { label: t("access.tokens"), cell: (row) => h("ul", {}, (row.tokens ?? []).map((one) => h("li", { class: "small" },
        h("code", {}, one.id), " ", one.expires_ms ? h("span", { class: "muted" }, t("access.expires"), " ", ago(one.expires_ms)) : h("span", { class: "muted" }, t("access.forever"))))) },
    ],
    blank: () => empty("access", t("access.none"), t("access.none.text"), command("rollq access add NAME --role client")),
  });
  const roles = list({
    path: "/access/roles", rows: "roles", signal, everyMs: 60_000, label: t("access.roles"), key: (row) => row.name, testid: "roles",
    columns: [
      { label: t("access.role"), cell: (row) => h("strong", {}, row.name) },
      { label: t("access.kind"), class: "nowrap", cell: (row) => t(row.built_in ? "access.built_in" : "access.own") },
      { label: t("access.rules"), cell: (row) => h("details", {}, h("summary", {}, t("access.rules.count", { n: (row.rules ?? []).length })), tags(row.rules)) },
    ],
    blank: () => empty("access", t("access.no_roles"), ""),
  });
  const audit = list({
    path: "/audit", rows: "acts", signal, label: t("access.audit"), key: (row) => `${row.ts_ms} ${row.index ?? ""} ${row.event} ${row.resource ?? ""} ${row.detail ?? ""}`, testid: "audit",
    columns: [
      { label: t("access.when"), class: "nowrap", cell: (row) => clock(row.ts_ms) },
      { label: t("access.account"), cell: (row) => row.by || h("span", { class: "muted" }, t("account.anonymous")) },
      { label: t("access.what"), cell: (row) => (row.event === "refused" ? badge("bad", "cancelled", t("event.refused")) : codeWords("event", row.event)) },
      { label: t("job.detail"), cell: (row) => h("span", { class: "wrap" }, [row.action, row.resource, row.detail !== row.by && row.detail, row.count > 1 ? `× ${row.count}` : ""].filter(Boolean).join(" ")) },
    ],
    blank: () => empty("history", t("access.no_audit"), t("access.no_audit.text")),
  });
  fill(root, pageHead(t("access.title"), t("access.lead")), checkForm(),
    h("h2", {}, t("access.accounts")), accounts.node, h("h2", {}, t("access.audit")), audit.node, h("h2", {}, t("access.roles")), roles.node);
}

const tags = (texts) => h("span", { class: "tags" }, (texts ?? []).map((one) => h("span", { class: "tag" }, one)));

/** The form of access checks; the result lists the rules. */
function checkForm() {
  const input = (name, placeholder) => h("input", { name, required: true, placeholder, autocomplete: "off", spellcheck: "false", dataset: { testid: `check-${name}` } });
  const [account, action, resource] = [input("account", "alice"), input("action", "jobs.cancel"), input("resource", "queue:render")];
  const answer = h("div", { role: "status", dataset: { testid: "check-answer" } });
  const check = async (event) => {
    event.preventDefault();
    try {
      const told = await get("/access/check", { account: account.value.trim(), action: action.value.trim(), resource: resource.value.trim() });
      fill(answer, badge(told.allowed ? "good" : "bad", told.allowed ? "ok" : "cancelled", t(told.allowed ? "access.allowed" : "access.refused")),
        " ", h("span", { class: "wrap" }, [told.reason, ...(told.rules ?? []).map((one) => one.rule)].filter(Boolean).join(" · ")));
    } catch (error) {
      fill(answer, badge("bad", "warn", error.message), " ", error.todo);
    }
  };
  return card(t("access.check"), h("form", { class: "form", onsubmit: check },
    h("div", { class: "fields" }, field(t("access.account"), account), field(t("access.action"), action), field(t("access.resource"), resource)),
    h("div", { class: "actions" }, h("button", { class: "button" }, icon("search"), t("access.ask")), answer)));
}

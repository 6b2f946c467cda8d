// Caches: files that workers keep, and their state on each worker.

import { get, part } from "../api.js";
import { tell } from "../dialog.js";
import { fill, h } from "../dom.js";
import { ago, bytes, count } from "../format.js";
import { list } from "../lists.js";
import { badge, button, command, empty, pageHead } from "../parts.js";
import { failed } from "../toasts.js";
import { t } from "../words.js";

const HELD = { OK: ["good", "ok"], MOVING: ["running", "download"], WAITING: ["waiting", "waiting"], SKIPPED: ["cancelled", "cancelled"], FAILED: ["bad", "failed"] };

export function open(root, { signal }) {
  const caches = list({
    path: "/files", rows: "files", signal, label: t("files.caches"), key: (row) => row.id, testid: "caches",
    columns: [
      { label: t("files.cache"), cell: (row) => h("strong", { class: "wrap" }, row.id) },
      { label: t("files.title"), class: "right", cell: (row) => count(row.files) },
      { label: t("files.size"), class: "right nowrap", cell: (row) => bytes(row.bytes) },
      { label: t("files.targets"), cell: (row) => h("span", { class: "tags" }, (row.targets ?? []).map((one) => h("span", { class: "tag mono" }, one))) },
      { label: t("files.users"), class: "right", cell: (row) => count(row.users) },
      { label: t("field.changed"), class: "right nowrap", cell: (row) => ago(row.changed_ms) },
      { label: t("field.state"), cell: (row) => (row.removed ? badge("warn", "trash", t("files.removed")) : badge("good", "ok", t("files.kept"))) },
      { label: "", class: "right", cell: (row) => button(t("files.holders"), () => holders(row.id), { sign: "workers", kind: "small", testid: "holders" }) },
    ],
    blank: () => empty("files", t("files.none"), t("files.none.text"), command("rollq cache put ID PATH…")),
  });
  fill(root, pageHead(t("files.title"), t("files.lead")), caches.node);
}

async function holders(id) {
  try {
    const found = (await get(`/files/${part(id)}/holders`)).holders ?? [];
    tell(t("files.holders.title", { id }), found.length ? h("ul", { class: "stack" }, found.map((one) => {
      const [state, sign] = HELD[one.status] ?? ["cancelled", "info"];
      return h("li", { class: "card-head" }, h("strong", { class: "wrap" }, one.name || one.worker_id), badge(state, sign, t(`held.${one.status}`)),
        h("span", { class: "muted" }, bytes(one.done_bytes), one.message && ` · ${one.message}`));
    })) : h("p", { class: "muted" }, t("files.no_holders")));
  } catch (error) {
    failed(error);
  }
}

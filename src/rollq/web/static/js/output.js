// Live output of a job. Only text nodes, only the last part, and a link to all of it.

import { ansiWriter } from "./ansi.js";
import { address, part } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { bytes } from "./format.js";
import { button } from "./parts.js";
import { t } from "./words.js";

const SHOWN_CHARS = 400_000; // beyond this the beginning is removed from the page
const TAIL_BYTES = 256 * 1024;
const STREAMS = ["stdout", "stderr"];

/**
 * Both streams of a job.
 * @param {string} id
 * @param {AbortSignal} signal
 * @returns {{node: HTMLElement, follow: () => void, load: () => void}}
 */
export function outputOf(id, signal) {
  const panes = Object.fromEntries(STREAMS.map((name) => [name, pane(id, name)]));
  let shown = "stdout";
  let isChosen = false; // by the user
  let source = null;
  let retry = 0;

  const tabs = STREAMS.map((name) => h("button", {
    class: "tab", role: "tab", type: "button", id: `tab-${name}`, "aria-controls": `pane-${name}`, dataset: { testid: `tab-${name}` },
    onclick: () => {
      isChosen = true;
      choose(name);
    },
    onkeydown: (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      choose(name === "stdout" ? "stderr" : "stdout");
      document.getElementById(`tab-${shown}`).focus();
    },
  }, name));

  const choose = (name) => {
    shown = name;
    for (const tab of tabs) {
      const on = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    for (const one of STREAMS) panes[one].node.hidden = one !== name;
    panes[name].toEnd();
  };

  const stop = () => {
    clearTimeout(retry);
    source?.close();
    source = null;
  };

  const follow = () => {
    if (source || signal.aborted) return;
    source = new EventSource(address(`/jobs/${part(id)}/follow`));
    source.addEventListener("output", (event) => {
      const said = JSON.parse(event.data);
      panes[said.stream]?.add(said);
    });
    source.addEventListener("end", stop); // the page loads the whole output at the end
    source.onerror = () => {
      stop();
      retry = setTimeout(follow, 2_000); // stopped by the page if the job has ended
    };
  };

  signal.addEventListener("abort", stop);
  const node = h("div", { class: "stack" }, h("div", { class: "tabs", role: "tablist", "aria-label": t("job.output") }, tabs), STREAMS.map((name) => panes[name].node));
  choose("stdout");
  return {
    node,
    follow,
    async load() {
      stop();
      const [stdout, stderr] = await Promise.all(STREAMS.map((name) => panes[name].load(signal)));
      if (!isChosen && !stdout && stderr) choose("stderr");
    },
  };
}

function pane(id, name) {
  const url = address(`/jobs/${part(id)}/output/${name}`);
  const text = h("pre", { class: "output", tabindex: "0", role: "log", "aria-label": name, dataset: { testid: `output-${name}` } });
  const note = h("span", { class: "small muted" });
  const wrap = button(t("output.wrap"), () => wrap.setAttribute("aria-pressed", String(!text.classList.toggle("whole-lines"))), { kind: "small" });
  const tail = button(t("output.follow"), () => {
    follows = !follows;
    tail.setAttribute("aria-pressed", String(follows));
    toEnd();
  }, { kind: "small" });
  let writer = ansiWriter();
  let follows = true;
  let attempt = -1;
  let last = -1;
  let chars = 0;
  wrap.setAttribute("aria-pressed", "true");
  tail.setAttribute("aria-pressed", "true");

  const toEnd = () => {
    if (follows) text.scrollTop = text.scrollHeight;
  };
  const write = (said) => {
    chars += said.length;
    text.append(...writer.write(said));
    while (chars > SHOWN_CHARS && text.childNodes.length > 1) {
      chars -= text.firstChild.textContent.length;
      text.firstChild.remove();
      note.textContent = t("output.end_only");
    }
    toEnd();
  };
  const blank = () => {
    if (!text.childNodes.length) fill(text, h("span", { class: "muted" }, t("output.none")));
  };
  blank();

  return {
    node: h("div", { class: "stack", role: "tabpanel", id: `pane-${name}`, "aria-labelledby": `tab-${name}` }, text,
      h("div", { class: "actions" }, tail, wrap,
        h("a", { class: "button small", href: url, download: `${id}.${name}.txt` }, icon("download"), t("download")), note)),
    toEnd,
    /** Handle a piece; what was received before the stream was reopened is skipped. */
    add(said) {
      const isNew = said.attempt > attempt;
      if (!said.text || said.attempt < attempt || (!isNew && said.offset <= last)) return;
      if (isNew) {
        fill(text);
        chars = 0;
        writer = ansiWriter();
      }
      attempt = said.attempt;
      last = said.offset;
      if (said.skipped) note.textContent = t("output.end_only");
      write(said.text);
    },
    /** Load all of it, or its last part; with its size. */
    async load(signal) {
      try {
        const answer = await fetch(url, { signal, headers: { range: `bytes=-${TAIL_BYTES}` } });
        if (!answer.ok) return 0;
        const said = await answer.text();
        if (signal.aborted) return 0;
        writer = ansiWriter();
        chars = 0;
        fill(text);
        const whole = Number((answer.headers.get("content-range") ?? "").split("/")[1]);
        note.textContent = whole > TAIL_BYTES ? t("output.tail", { size: bytes(TAIL_BYTES), whole: bytes(whole) }) : "";
        write(said);
        blank();
        return said.length;
      } catch {
        return 0; // retried when the job changes
      }
    },
  };
}

// Renders ANSI colours of program output. Codes become CSS classes, text stays text; other escape
// sequences are dropped.

import { h } from "./dom.js";

const SEQUENCE = /\u001b(?:\[([0-9;]*)([A-Za-z])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** A renderer of one stream: it keeps the colour between pieces. */
export function ansiWriter() {
  let style = { bold: false, faint: false, italic: false, under: false, colour: null };
  let left = ""; // an incomplete sequence

  const piece = (text) => {
    const names = [
      style.bold && "a-bold", style.faint && "a-faint", style.italic && "a-italic", style.under && "a-under",
      style.colour !== null && `a-${style.colour}`,
    ].filter(Boolean);
    return names.length ? h("span", { class: names.join(" ") }, text) : document.createTextNode(text);
  };

  return {
    /** The DOM nodes for the next piece of a stream. */
    write(text) {
      const whole = left + text;
      const cut = whole.lastIndexOf("\u001b");
      const isOpen = cut >= 0 && whole.length - cut < 32 && !new RegExp(SEQUENCE.source).test(whole.slice(cut));
      left = isOpen ? whole.slice(cut) : "";
      const said = isOpen ? whole.slice(0, cut) : whole;
      const nodes = [];
      let at = 0;
      for (const found of said.matchAll(SEQUENCE)) {
        if (found.index > at) nodes.push(piece(said.slice(at, found.index)));
        at = found.index + found[0].length;
        if (found[2] === "m") style = changed(style, found[1]);
      }
      if (at < said.length) nodes.push(piece(said.slice(at)));
      return nodes;
    },
  };
}

function changed(style, codes) {
  let next = { ...style };
  for (const code of (codes || "0").split(";").map(Number)) {
    if (code === 0) next = { bold: false, faint: false, italic: false, under: false, colour: null };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.faint = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.under = true;
    else if (code === 22) next = { ...next, bold: false, faint: false };
    else if (code === 23) next.italic = false;
    else if (code === 24) next.under = false;
    else if (code === 39) next.colour = null;
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 90;
    else if (code === 38 || code === 48) break; // extended colours are not supported
  }
  return next;
}

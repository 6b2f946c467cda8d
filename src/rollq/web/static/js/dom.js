// DOM elements. Data only becomes text nodes and attributes: markup is never parsed.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an element.
 * @param {string} tag
 * @param {Record<string, any>} [props] `class`, `onclick` and other listeners, `dataset`, attributes;
 *   null, undefined and false leave one out
 * @param {...any} children nodes, text, lists of them; null, undefined and false are left out
 * @returns {HTMLElement}
 */
export function h(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/** Create an SVG element. */
export function s(tag, props = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), props, children);
}

/** An icon of the sprite. It is hidden from screen readers: a text stands beside it. */
export function icon(name) {
  return s("svg", { class: "icon", "aria-hidden": "true", focusable: "false" },
    s("use", { href: `/static/icons.svg#${name}` }));
}

/** Replace the children. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

function dress(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

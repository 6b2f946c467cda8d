// Arguments and variables in text fields: one per line.

/** Lines to arguments. An empty line in between is an empty argument; those at the end are ignored. */
export function argsOf(text) {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  while (lines.length && lines.at(-1) === "") lines.pop();
  return lines;
}

/** Arguments to lines. */
export const linesOf = (args) => args.join("\n");

/** Lines `NAME=value` to an object. A line without `=` is a name with an empty value. */
export function pairsOf(text) {
  const pairs = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 0) pairs[line.trim()] = "";
    else pairs[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return pairs;
}

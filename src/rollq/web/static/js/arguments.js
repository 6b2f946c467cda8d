// Arguments and variables as people write them: one on a line.

/** Lines as arguments. An empty line in between is an empty argument; those at the end are none. */
export function argsOf(text) {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  while (lines.length && lines.at(-1) === "") lines.pop();
  return lines;
}

/** Arguments as lines. */
export const linesOf = (args) => args.join("\n");

/** Lines `NAME=value` as an object. A line without a sign is a name with an empty value. */
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

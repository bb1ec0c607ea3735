import { code, fenced, table } from "./markdown.ts";
import type { Form } from "./writes-scenes.ts";
import type { Sent } from "./writes-stage.ts";
import { GROUPS } from "./writes-stories.ts";
import { RandomNames, textsOf, type WriteText } from "./writes-text.ts";
import { whyOf } from "./writes-why.ts";

/** docs/reference/writes.md, from the writes that limiters make in the stories. */
export async function writesReference(): Promise<string> {
  const parts = [HEAD];
  for (const { title, forms } of GROUPS) {
    parts.push(`## ${title}`);
    for (const form of forms) parts.push(...partsOf(form, await form.play()));
  }
  return `${parts.join("\n\n")}\n`;
}

function partsOf(form: Form, sent: readonly Sent[]): string[] {
  if (sent.length === 0) throw new Error(`scripts/reference/writes-stories.ts: nothing is written in "${form.title}".`);
  const names = new RandomNames();
  const writes = sent.flatMap((one) => {
    const texts = textsOf(one, names).flatMap((text) => writeParts(form, text));
    return one.call === "write" ? texts : ["One transaction, all or nothing:", ...texts];
  });
  return [`### ${form.title}`, form.when, `*${form.story}*`, ...writes];
}

function writeParts({ why = [] }: Form, text: WriteText): string[] {
  const reasoned = (all: readonly string[]) => joined(all.map((one) => [code(one), whyOf(one, why, text)]));
  const update = text.effects.length === 0 ? [] : [["**update**", ""], ...reasoned(text.effects)];
  const parts = [
    `${code(text.operation)} of ${placeOf(text)}:`,
    table(["condition", "why"], [...reasoned(text.clauses), ...update]),
  ];
  if (text.item.length > 0) parts.push("The item:", fenced("text", wrapped(text.item)));
  return parts;
}

/** Neighbours of one reason share a row. */
function joined(rows: readonly (readonly [string, string])[]): string[][] {
  const found: string[][] = [];
  for (const [text, why] of rows) {
    const last = found.at(-1);
    if (last?.[1] === why) last[0] = `${last[0]}, ${text}`;
    else found.push([text, why]);
  }
  return found;
}

function placeOf({ what, shard }: WriteText): string {
  if (what === "shard") return `shard ${shard}`;
  return what === "sheet" ? `the sheet of a day beside shard ${shard}` : "the record of the operation";
}

/** As many to a line as there is room for. */
function wrapped(words: readonly string[]): string {
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 3 + word.length <= LINE_MAX) lines[lines.length - 1] = `${last}   ${word}`;
    else lines.push(word);
  }
  return lines.join("\n");
}

const LINE_MAX = 130;

const HEAD = `# The writes, clause by clause

What DynamoDB gets for each form of write of [the protocol](../protocol.md): the condition, the update, and why each part is there. For readers who
want to check the protocol without reading its code. A limiter makes each write in a short story on a simulated table, and the DynamoDB adapter
turns it into a request; this page is made from these requests by \`node scripts/writes-reference.ts\`.

- Names and values are put in where the request has placeholders. The clauses of a condition are joined by \`AND\`: all must hold.
- [The attributes](../protocol.md#the-attributes) are explained there. Amounts are millitokens: \`b_rpm_tk >= -4000\` is 4 tokens below zero.
- \`12:00:05\` stands for that instant of 2026-03-15, UTC, in the unit of its attribute: ms, of \`ttl\` seconds, of \`uh\` and \`up\` hours since 1970.
- \`B1\`, \`R1\`, \`N1\` stand for numbers that were drawn at random: of a bucket, of a quota's beginnings, of a write. Usage is kept for 90 days.
- A condition that does not hold changes nothing. The answer shows the item as it stands, and the next write goes by that.
- Keys, and what follows from them (\`GSI2PK\` and the like), are left out.`;

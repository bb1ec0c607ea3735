import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { ts } from "@ts-morph/common";

/** Where the files of `src` stand. */
const SRC = new URL("../../src/", import.meta.url).href;

/** What an instrumented function calls first. */
const ENTERED = "__zaelEntered";

const entered: string[] = [];
let isNoting = false;

/**
 * Notes the files of `src` whose functions run while `work` does, in the order in which they are first entered. Constructors are not
 * noted: what is made anew for a call is seen by its methods. Only files that are imported after this one are noted.
 */
export async function filesEntered(work: () => Promise<void>): Promise<readonly string[]> {
  entered.length = 0;
  isNoting = true;
  try {
    await work();
  } finally {
    isNoting = false;
  }
  return Array.from(new Set(entered));
}

Object.assign(globalThis, {
  [ENTERED]: (file: string) => {
    if (isNoting) entered.push(file);
  },
});

registerHooks({
  load(url, context, nextLoad) {
    if (!url.startsWith(SRC) || !url.endsWith(".ts")) return nextLoad(url, context);
    const source = instrumented(readFileSync(fileURLToPath(url), "utf8"), url.slice(SRC.length));
    return { format: "module-typescript", source, shortCircuit: true };
  },
});

/** The source with a call at the head of each function. */
function instrumented(source: string, file: string): string {
  const call = `${ENTERED}(${JSON.stringify(file)})`;
  const inserts: { at: number; text: string }[] = [];
  const visit = (node: ts.Node): void => {
    ts.forEachChild(node, visit);
    if (!ts.isFunctionLike(node) || ts.isConstructorDeclaration(node)) return;
    const { body } = node as ts.FunctionLikeDeclaration;
    if (body === undefined) return;
    if (ts.isBlock(body)) inserts.push({ at: body.getStart() + 1, text: `${call};` });
    else inserts.push({ at: body.getStart(), text: `(${call}, ` }, { at: body.getEnd(), text: ")" });
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.ESNext, true));
  // From the end on, so that places before an insert stay; of two at one place the outer function's parenthesis closes last.
  return inserts
    .map((insert, i) => ({ ...insert, i }))
    .sort((a, b) => b.at - a.at || a.i - b.i)
    .reduce((text, { at, text: added }) => text.slice(0, at) + added + text.slice(at), source);
}

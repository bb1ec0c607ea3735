/** One import, export-from or import() of a file. */
export interface Import {
  /** What stands between the quotes; undefined where an import() computes it. */
  readonly specifier: string | undefined;
  /** Whether nothing of it is left at run time: `import type`, `export type`, `typeof import()`. */
  readonly typeOnly: boolean;
}

/** What the rules look at: a file without its comments, and with its texts taken out. */
export interface Scanned {
  readonly imports: readonly Import[];
  /** Code only: a `Date.now(` in a comment or a text is none. */
  readonly code: string;
  readonly lineCount: number;
}

export function scan(text: string): Scanned {
  const { code, texts } = withoutTexts(text);
  return { imports: importsOf(code, texts), code, lineCount: text.trimEnd().split("\n").length };
}

const STATIC_IMPORT = /\b(import|export)\b((?:(?!\b(?:import|export)\b)[^;"()=])*?)"(\d+)"/g;
const DYNAMIC_IMPORT = /(\btypeof\s+)?(?<![.\w])(?:import|require)\s*\(\s*(?:"(\d+)")?/g;

function importsOf(code: string, texts: readonly string[]): Import[] {
  const imports: Import[] = [];
  for (const [, keyword, clause = "", index] of code.matchAll(STATIC_IMPORT)) {
    // An export without `from` is a declaration that happens to have a text in it.
    if (keyword === "export" && !/\bfrom\s*$/.test(clause)) continue;
    imports.push({ specifier: texts[Number(index)], typeOnly: /^\s*type\b/.test(clause) });
  }
  for (const [, typeOf, index] of code.matchAll(DYNAMIC_IMPORT)) {
    const specifier = index === undefined ? undefined : texts[Number(index)];
    imports.push({ specifier, typeOnly: typeOf !== undefined });
  }
  return imports;
}

const QUOTED = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
const REG_EXP = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const COMMENT = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const TEMPLATE_PART = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)/y;

/** Text `n` of the file stands in its code as "n"; of a template only the expressions are left. */
function withoutTexts(source: string): { code: string; texts: string[] } {
  const texts: string[] = [];
  // The brace depth at which a `}` goes on with a template instead of closing a block.
  const templates: number[] = [];
  let depth = 0;
  let code = "";
  for (let i = 0; i < source.length; ) {
    const char = source[i] as string;
    const comment = at(COMMENT, source, i);
    const quoted = at(QUOTED, source, i);
    const regExp = char === "/" && startsRegExp(code) ? at(REG_EXP, source, i) : undefined;
    if (comment !== undefined) i += comment.length;
    else if (quoted !== undefined) {
      code += `"${texts.push(quoted.slice(1, -1)) - 1}"`;
      i += quoted.length;
    } else if (regExp !== undefined) {
      code += "(0)";
      i += regExp.length;
    } else if (char === "`" || (char === "}" && templates.at(-1) === depth)) {
      const part = at(TEMPLATE_PART, source, i + 1) ?? "";
      code += char === "`" ? "(" : ")";
      if (char === "}") templates.pop();
      if (part.endsWith("${")) templates.push(depth);
      else code += ")";
      i += 1 + part.length;
    } else {
      if (char === "{") depth++;
      if (char === "}") depth--;
      code += char;
      i++;
    }
  }
  return { code, texts };
}

function at(pattern: RegExp, text: string, index: number): string | undefined {
  pattern.lastIndex = index;
  return pattern.exec(text)?.[0];
}

/** A slash divides after a value; it begins a pattern after an operator, an opening bracket or a keyword. */
function startsRegExp(before: string): boolean {
  return /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|void|throw))\s*$/.test(before.slice(-40));
}

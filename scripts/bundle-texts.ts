import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Plugin } from "esbuild";

/** Puts the texts of `sql/*.sql` and `lua/*.lua`, without their comments, into the files that read them where nothing is built. */
export const statementTexts: Plugin = {
  name: "texts of statements",
  setup({ onLoad }) {
    onLoad({ filter: /adapters\/postgres\/sql-texts\.ts$/ }, ({ path }) => moduleOf(path, "sql", "sqlText"));
    onLoad({ filter: /adapters\/redis\/lua-texts\.ts$/ }, ({ path }) => moduleOf(path, "lua", "luaText"));
  },
};

function moduleOf(path: string, folder: "sql" | "lua", exported: string) {
  const files = globSync(join(dirname(path), `${folder}/*.${folder}`)).sort();
  const texts = files.map((file) => [basename(file, `.${folder}`), withoutComments(readFileSync(file, "utf8"))]);
  const contents = `const TEXTS = ${JSON.stringify(Object.fromEntries(texts))};\nexport const ${exported} = (name) => TEXTS[name];\n`;
  return { contents, loader: "js" } as const;
}

/** In both languages two dashes begin a comment; none of the files has two in a text, or a comment behind code. */
function withoutComments(text: string): string {
  return text.replace(/^ *--.*\n/gm, "").replace(/^ +/gm, "");
}

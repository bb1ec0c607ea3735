import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ts } from "@ts-morph/common";
import { ENTRIES } from "./bundle-code.ts";

/** A relative import of a .ts file: what comes before the ending, the ending, the quote. */
const TS_IMPORT = /((?:\bfrom|\bimport)\s*\(?\s*["']\.[^"']*)(\.ts)(["'])/g;

/** Of the declarations that the compiler wrote to `dist/declared`, keeps what the entries need, and adds those for CommonJS. */
export function bundleTypes(dist: string): void {
  placeDeclarations(dist);
  const entries = ENTRIES.map((name) => join(dist, `entry/${name}.d.ts`));
  const needed = new Set(entries);
  for (const file of needed) {
    const text = readFileSync(file, "utf8");
    // The compiler rewrites imports in JavaScript but leaves them in declarations, where they name files we do not ship.
    writeFileSync(file, withoutInnerComments(dist, file, text).replace(TS_IMPORT, "$1.js$3"));
    for (const { fileName } of ts.preProcessFile(text).importedFiles) {
      if (fileName.startsWith(".")) needed.add(join(dirname(file), fileName.replace(/\.ts$/, ".d.ts")));
    }
  }
  for (const file of globSync("**/*.d.ts", { cwd: dist })) if (!needed.has(join(dist, file))) rmSync(join(dist, file));
  const program = ts.createProgram(entries, OPTIONS, ownFilesHost());
  for (const [i, entry] of entries.entries()) {
    const text = forCommonJs(program, entry, ENTRIES[i] ?? "");
    writeFileSync(entry.replace(/\.d\.ts$/, ".d.cts"), text);
  }
}

/** The compiler keeps the folders of the sources. In the package the kit that tests share is the folder `testing`. */
function placeDeclarations(dist: string): void {
  const declared = join(dist, "declared");
  for (const file of globSync("**/*.d.ts", { cwd: declared })) {
    const text = readFileSync(join(declared, file), "utf8");
    const place = join(dist, file.replace(/^src\//, "").replace(/^test\/kit\//, "testing/"));
    mkdirSync(dirname(place), { recursive: true });
    writeFileSync(place, text.replaceAll("../../test/kit/", "../testing/").replaceAll('"../../src/', '"../'));
  }
  rmSync(declared, { recursive: true });
}

const OPTIONS: ts.CompilerOptions = { noLib: true, module: ts.ModuleKind.NodeNext, types: [] };

/** Finds the declarations of this package alone: what an entry exports is declared in them, and those of its peers take long to read. */
function ownFilesHost(): ts.CompilerHost {
  const host = ts.createCompilerHost(OPTIONS);
  host.resolveModuleNameLiterals = (literals, file) =>
    literals.map(({ text }) => {
      if (!text.startsWith(".")) return { resolvedModule: undefined };
      const resolvedFileName = join(dirname(file), text.replace(/\.js$/, ".d.ts"));
      return { resolvedModule: { resolvedFileName, extension: ts.Extension.Dts } };
    });
  return host;
}

/** No entry exports a name of `protocol/`: its types stand in declarations of others, and nobody reads what is said of them. */
function withoutInnerComments(dist: string, file: string, text: string): string {
  if (!file.startsWith(join(dist, "protocol/"))) return text;
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  return ts.createPrinter({ removeComments: true }).printFile(source);
}

/**
 * The same once more for CommonJS: Node lets it require this package, but TypeScript takes a .d.ts in here for a module that
 * cannot be required. Types are those of the module, whichever way they are imported; only what has a value is declared again.
 */
function forCommonJs(program: ts.Program, entry: string, name: string): string {
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(entry);
  const module = source && checker.getSymbolAtLocation(source);
  if (module === undefined) throw new Error(`${entry} is no module.`);
  const from = `"./${name}.js" with { "resolution-mode": "import" }`;
  const lines = [`import type * as module from ${from};`, `export type * from ${from};`];
  for (const exported of checker.getExportsOfModule(module)) {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    if ((symbol.flags & ts.SymbolFlags.Value) === 0 || isTypeOnly(exported)) continue;
    lines.push(...docOf(symbol), `export declare const ${exported.name}: typeof module.${exported.name};`);
    if (symbol.flags & ts.SymbolFlags.Type) lines.push(typeOf(exported.name, symbol));
  }
  return `${lines.join("\n")}\n`;
}

/** `export type { RateLimiter }`: the value is not there. */
function isTypeOnly({ declarations = [] }: ts.Symbol): boolean {
  return declarations.some((each) => ts.isTypeOnlyExportDeclaration(each));
}

function typeOf(name: string, { declarations = [] }: ts.Symbol): string {
  const [parameters = []] = declarations.flatMap((each) =>
    ts.isClassDeclaration(each) || ts.isInterfaceDeclaration(each) || ts.isTypeAliasDeclaration(each)
      ? [each.typeParameters ?? []]
      : [],
  );
  const list = (texts: readonly string[]) => (texts.length === 0 ? "" : `<${texts.join(", ")}>`);
  const declared = list(parameters.map((each) => each.getText()));
  return `export type ${name}${declared} = module.${name}${list(parameters.map((each) => each.name.text))};`;
}

function docOf({ declarations = [] }: ts.Symbol): readonly string[] {
  const [first] = declarations.flatMap((each) => ts.getJSDocCommentsAndTags(each).filter(ts.isJSDoc));
  return first === undefined ? [] : [first.getText()];
}

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ts } from "@ts-morph/common";

/** As much of the standard library as the shapes of types need: the real one takes seconds to read. */
const LIB = `
interface Array<T> { length: number } interface ReadonlyArray<T> { length: number } interface Promise<T> {} interface Date {}
interface Boolean {} interface CallableFunction {} interface Function {} interface IArguments {} interface NewableFunction {}
interface Number {} interface Object {} interface RegExp {} interface String {} interface Error {}
interface SymbolConstructor { readonly asyncDispose: unique symbol; readonly asyncIterator: unique symbol; }
declare var Symbol: SymbolConstructor;
type Pick<T, K extends keyof T> = { [P in K]: T[P] }; type Exclude<T, U> = T extends U ? never : T;
type Omit<T, K extends keyof any> = Pick<T, Exclude<keyof T, K>>; type Record<K extends keyof any, T> = { [P in K]: T };
type Readonly<T> = { readonly [P in keyof T]: T[P] }; type Partial<T> = { [P in keyof T]?: T[P] };
`;

const OPTIONS: ts.CompilerOptions = {
  ...{
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
  },
  ...{ allowImportingTsExtensions: true, noEmit: true, strict: true, types: [], lib: ["lib.d.ts"] },
};

/** The files and what they import of the project, for their symbols and types; nothing is checked. */
export function programOf(files: readonly string[]): ts.Program {
  return ts.createProgram([...files], OPTIONS, hostOf());
}

/** Only files of the project are read: what is imported from packages is printed by its name. */
function hostOf(): ts.CompilerHost {
  const parsed = (name: string, text: string) => ts.createSourceFile(name, text, ts.ScriptTarget.ES2023, true);
  return {
    getSourceFile: (name) => parsed(name, name.endsWith("lib.d.ts") ? LIB : readFileSync(name, "utf8")),
    getDefaultLibFileName: () => "lib.d.ts",
    getDefaultLibLocation: () => "",
    writeFile: () => {},
    getCurrentDirectory: () => "/",
    getCanonicalFileName: (name) => name,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => "\n",
    fileExists: () => false,
    readFile: () => undefined,
    resolveModuleNameLiterals: (literals, from) =>
      literals.map(({ text }) => ({
        resolvedModule: text.startsWith(".")
          ? { resolvedFileName: join(dirname(from), text), extension: ts.Extension.Ts }
          : undefined,
      })),
  };
}

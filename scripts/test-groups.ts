import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Test files that run in one process. */
export interface TestGroup {
  /** What the process is started with. */
  readonly entry: string;
  readonly files: readonly string[];
}

/** A file that changes what all of a process share, also which version of a package they get, or goes by it, has a process of its own. */
const SHARED_STATE =
  /worker_threads|process\.(on|once|emit|env|exit|memoryUsage|emitWarning|cwd|argv|stdout|stderr)\b|globalThis\.|mock\.|(before|after)Each\(|describe(Servers|Pgbouncer|Archive|Moto|Lint)|gc\(|useOldest\(|otelCases\(/;

/** Folders whose tests have a process together, however long they take: they share a browser, which takes long to start. */
const TOGETHER = ["test/dashboard/"];

/** So many files a process loads: their modules are loaded once for all of them. */
const FILES_MAX = 16;

/** Puts files that share nothing but modules together; `isAlone` names those that take too long to wait for each other. */
export function grouped(root: string, files: readonly string[], isAlone: (file: string) => boolean): TestGroup[] {
  const mayShare = (file: string) => !SHARED_STATE.test(readFileSync(join(root, file), "utf8"));
  const isTogether = (file: string) => TOGETHER.some((folder) => file.startsWith(folder)) && mayShare(file);
  const isPure = (file: string) => !isTogether(file) && !isAlone(file) && mayShare(file);
  const alone = files.filter((file) => !isTogether(file) && !isPure(file));
  const together = TOGETHER.map((folder) => files.filter((file) => file.startsWith(folder) && isTogether(file)));
  const pure = files.filter(isPure);
  const few = Array.from({ length: Math.ceil(pure.length / FILES_MAX) }, (_, i) =>
    pure.slice(i * FILES_MAX, (i + 1) * FILES_MAX),
  );
  const folder = join(root, "node_modules/.cache/zae-limiter/groups");
  mkdirSync(folder, { recursive: true });
  let groups = 0;
  const groupOf = (group: readonly string[]): TestGroup => {
    const entry = join(folder, `${process.pid}-${++groups}.test.mjs`);
    const lines = group.map((file) => `await import(${JSON.stringify(pathToFileURL(join(root, file)).href)});\n`);
    writeFileSync(entry, lines.join(""));
    return { entry, files: group };
  };
  return [
    ...together.filter((group) => group.length > 0).map(groupOf),
    ...alone.map((file) => ({ entry: join(root, file), files: [file] })),
    ...few.map(groupOf),
  ];
}

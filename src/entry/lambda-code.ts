import { existsSync, readFileSync } from "node:fs";
import { LimiterError } from "../domain/names/errors.ts";
import { type LambdaZip, lambdaZip } from "../infra/functions.ts";

/** A function of the stack. */
export type LambdaName = "aggregator" | "provisioner";

/** The code of a function, to be uploaded: `index.mjs`, which exports `handler`, and the files that it imports. */
export async function lambdaCode(name: LambdaName): Promise<LambdaZip> {
  return lambdaZip(isBuilt() ? builtZip(name) : await freshZip(name));
}

function isBuilt(): boolean {
  return !import.meta.url.endsWith(".ts");
}

/** The code of a function as `npm run build` has written it: the part with which both zips begin, and the rest of this one. */
export function builtZip(name: LambdaName): Uint8Array {
  return Buffer.concat([partOf("shared", name), partOf(name, name)]);
}

function partOf(part: string, name: LambdaName): Uint8Array {
  const file = new URL(`${isBuilt() ? ".." : "../../dist"}/lambda/${part}.part`, import.meta.url);
  if (existsSync(file)) return readFileSync(file);
  throw new LimiterError(
    "code_missing",
    `This package lacks the code of the ${name} function (${file.pathname}); install it again, or run \`npm run build\`.`,
  );
}

/** In a clone of the repository nothing is built: the code is made of the sources as they are, once a process. */
async function freshZip(name: LambdaName): Promise<Uint8Array> {
  fresh ??= bundled();
  return (await fresh)[name];
}

type Zips = Readonly<Record<LambdaName, Uint8Array>>;

let fresh: Promise<Zips> | undefined;

async function bundled(): Promise<Zips> {
  const script = new URL("../../scripts/bundle-lambda.ts", import.meta.url).href;
  const { zippedFunctions } = (await import(script)) as { zippedFunctions(): Promise<Zips> };
  return zippedFunctions();
}

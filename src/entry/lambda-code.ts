import { existsSync, readFileSync } from "node:fs";
import { LimiterError } from "../domain/names/errors.ts";
import { type LambdaZip, lambdaZip } from "../infra/lambda-zip.ts";

/** A function of the stack. */
export type LambdaName = "aggregator" | "provisioner";

/** The code of a function, to be uploaded: `index.mjs`, which exports `handler`. */
export async function lambdaCode(name: LambdaName): Promise<LambdaZip> {
  return lambdaZip(isBuilt() ? builtZip(name) : await freshZip(name));
}

function isBuilt(): boolean {
  return !import.meta.url.endsWith(".ts");
}

function builtZip(name: LambdaName): Uint8Array {
  const file = new URL(`../lambda/${name}.zip`, import.meta.url);
  if (existsSync(file)) return readFileSync(file);
  throw new LimiterError(
    "code_missing",
    `This package lacks the code of the ${name} function (${file.pathname}); install it again, or run \`npm run build\`.`,
  );
}

/** In a clone of the repository nothing is built: the code is made of the sources as they are, once a process. */
function freshZip(name: LambdaName): Promise<Uint8Array> {
  const made = fresh.get(name) ?? bundled(name);
  fresh.set(name, made);
  return made;
}

const fresh = new Map<LambdaName, Promise<Uint8Array>>();

async function bundled(name: LambdaName): Promise<Uint8Array> {
  const script = new URL("../../scripts/bundle-lambda.ts", import.meta.url).href;
  const { zippedFunction } = (await import(script)) as { zippedFunction(name: LambdaName): Promise<Uint8Array> };
  return zippedFunction(name);
}

import { type TestContext, test } from "node:test";
import { isDeep } from "./depth.ts";

/** Declares a test that only `npm run test:deep` has. */
export function deepTest(name: string, body: (t: TestContext) => void | Promise<void>): void {
  if (isDeep) test(name, body);
}

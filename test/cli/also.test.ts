import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { createService } from "../../src/entry/server.ts";
import { tokenOf } from "../server/service-kit.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

/** The options of a store, and of a service on one, each with three entities that have limits on two resources. */
const PLACES: Readonly<Record<string, (t: TestContext) => Promise<readonly string[]>>> = {
  "a store": async (t) => {
    const where = ["--store", `sqlite:${tempFile(t)}`];
    assert.equal((await here(["init", ...where])).code, 0);
    return where;
  },
  "a service": async (t) => {
    const { token, entry } = tokenOf("ops", { scopes: ["acquire", "read", "admin", "refund"] });
    const service = await createService({
      ...{ store: "memory", tokens: [entry], log: () => {}, unnamedLimits: "allow" },
    });
    const { url, close } = await service.listen({ port: 0 });
    t.after(close);
    const tokenFile = tempFile(t);
    writeFileSync(tokenFile, token);
    return ["--url", url, "--token-file", tokenFile];
  },
};

async function prepared(t: TestContext, place: string) {
  const where = await (PLACES[place] as (typeof PLACES)[string])(t);
  const run = async (line: string) => {
    const { code, stdout, stderr } = await here([...line.split(" "), "--json", ...where]);
    return { code, answer: JSON.parse(stdout || stderr) };
  };
  for (const resource of ["gpt-4", "team/images"]) {
    await run(`resource set-defaults ${resource} -l tpm:1000,reset=yearly`);
  }
  for (const entity of ["key-1", "key-2", "ann@example.com"]) await run(`entity create ${entity}`);
  const left = async (...places: readonly string[]) =>
    Promise.all(
      places.map(async (one) => {
        const { answer } = await run(`available ${one}`);
        return (answer.items as { available: number }[])[0]?.available;
      }),
    );
  return { run, left };
}

for (const place of Object.keys(PLACES)) {
  test(`on ${place}, --also takes from other entities, all or nothing`, async (t) => {
    const { run, left } = await prepared(t, place);
    const also = "--also gpt-4@key-2:tpm=20 --also team/images:tpm=3 --also team/images@ann@example.com:tpm=4";
    const granted = await run(`acquire key-1 gpt-4 -c tpm=10 ${also}`);
    assert.equal(granted.code, 0, JSON.stringify(granted.answer));
    assert.deepEqual(granted.answer.parts, [
      { entityId: "key-1", resource: "gpt-4", consumed: { tpm: 10 } },
      { entityId: "key-2", resource: "gpt-4", consumed: { tpm: 20 } },
      { entityId: "key-1", resource: "team/images", consumed: { tpm: 3 } },
      { entityId: "ann@example.com", resource: "team/images", consumed: { tpm: 4 } },
    ]);
    const all = ["key-1 gpt-4", "key-2 gpt-4", "key-1 team/images", "ann@example.com team/images"];
    assert.deepEqual(await left(...all), [990, 980, 997, 996]);
    const refused = await run("acquire key-1 gpt-4 -c tpm=10 --also gpt-4@key-2:tpm=981");
    assert.deepEqual([refused.code, refused.answer.primary.entityId], [1, "key-2"]);
    assert.equal((await run("acquire key-1 gpt-4 -c tpm=10 --also gpt-4@key-2:tpm=981 --dry-run")).code, 1);
    assert.equal((await run("acquire key-1 gpt-4 -c tpm=10 --also gpt-4@key-2:tpm=980 --dry-run")).code, 0);
    assert.deepEqual(await left(...all), [990, 980, 997, 996]);
    // A part of the entity itself needs no @, and the answer is as it was before there were others.
    const own = await run("acquire key-1 gpt-4 -c tpm=1 --also team/images:tpm=1");
    assert.deepEqual([own.code, own.answer.parts], [0, undefined]);
  });

  test(`on ${place}, charges and give-backs reach other entities by --also`, async (t) => {
    const { run, left } = await prepared(t, place);
    const parts = "--also gpt-4@key-2:tpm=20 --also team/images:tpm=3";
    const charged = await run(`bucket charge key-1 gpt-4 -a tpm=10 ${parts}`);
    assert.deepEqual([charged.code, charged.answer.amounts], [0, { tpm: 10 }]);
    const all = ["key-1 gpt-4", "key-2 gpt-4", "key-1 team/images"];
    assert.deepEqual(await left(...all), [990, 980, 997]);
    const back = await run("bucket give-back key-1 gpt-4 -a tpm=4 --also gpt-4@key-2:tpm=5");
    assert.deepEqual([back.code, back.answer.amounts], [0, { tpm: 4 }]);
    assert.deepEqual(await left(...all), [994, 985, 997]);
  });

  test(`on ${place}, a part that is misspelled changes nothing`, async (t) => {
    const { run, left } = await prepared(t, place);
    for (const [also, code, told] of [
      ["gpt-4@key-3:tpm=1", 4, "entity_not_found"],
      ["gpt-5@key-2:tpm=1", 4, "resource_not_found"],
      ["gpt-4@key-2:tpm", 2, "usage"],
      ["gpt-4@:tpm=1", 2, "entity_id_invalid"],
      ["@key-2:tpm=1", 2, "resource_invalid"],
      ["gpt-4@key-1:tpm=1", 2, "also_invalid"],
    ] as const) {
      for (const command of ["acquire key-1 gpt-4 -c tpm=1", "bucket charge key-1 gpt-4 -a tpm=1"]) {
        const { code: own, answer } = await run(`${command} --also ${also}`);
        assert.deepEqual([own, answer.error.code], [code, told], `${command} --also ${also}`);
      }
    }
    assert.deepEqual(await left("key-1 gpt-4", "key-2 gpt-4"), [1_000, 1_000]);
  });
}

import assert from "node:assert/strict";
import { here } from "./in-process.ts";

/** Leases as an operator sees and ends them, wherever they are looked at; they are taken over a service. */
export async function leaseStory(
  where: readonly string[],
  { url, token }: { readonly url: string; readonly token: string },
): Promise<void> {
  const json = async (line: string, code: number) => {
    const ran = await here([...line.split(" "), "--json", ...where]);
    assert.equal(ran.code, code, `${line}: ${ran.stdout}${ran.stderr}`);
    return JSON.parse(code === 0 ? ran.stdout : ran.stderr);
  };
  await json("resource set-defaults gpt-4 -l tpm:1/day:1000", 0);
  await json("bucket reset key-1 gpt-4 --allow-unknown", 0);
  const take = async () => {
    const response = await fetch(new URL("/v1/namespaces/default/acquire", url), {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify({ entityId: "key-1", resource: "gpt-4", consume: { tpm: 400 }, holdMs: 3_600_000 }),
    });
    assert.equal(response.status, 201);
    return ((await response.json()) as { leaseId: string }).leaseId;
  };
  const [one, other] = [await take(), await take()];
  const ids = async (line: string) =>
    (await json(line, 0)).items.map(({ leaseId }: { leaseId: string }) => leaseId).sort();
  assert.deepEqual(await ids("lease list"), [one, other].sort());
  assert.deepEqual(await ids("lease list -e key-1 -r gpt-4"), [one, other].sort());
  assert.deepEqual(await ids("lease list -e key-2"), []);
  const lease = await json(`lease show ${one}`, 0);
  assert.deepEqual([lease.status, lease.consumed], ["open", { tpm: 400 }]);
  const dry = await json(`lease settle ${one} -c tpm=150 --dry-run`, 0);
  assert.deepEqual([dry.status, dry.consumed, dry.dryRun], ["settled", { tpm: 150 }, true]);
  assert.equal((await json(`lease show ${one}`, 0)).status, "open");
  for (let i = 0; i < 2; i++) {
    const settled = await json(`lease settle ${one} -c tpm=150`, 0);
    assert.deepEqual([settled.status, settled.consumed], ["settled", { tpm: 150 }], "the same however often");
  }
  assert.equal((await json(`lease rollback ${one}`, 1)).error.code, "lease_closed");
  assert.equal((await json(`lease rollback ${one} --dry-run`, 1)).error.code, "lease_closed");
  assert.equal((await json(`lease rollback ${other}`, 0)).status, "rolledBack");
  assert.deepEqual(await ids("lease list"), []);
  const [left] = (await json("available key-1 gpt-4", 0)).items;
  assert.equal(left.available, 850);
  assert.equal((await json("lease show l_nobody", 4)).error.code, "lease_not_found");
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkVersion, compareVersions, type VersionRecord } from "./version.ts";

test("versions compare by their numbers, with or without a v, two parts or three, pre-releases as their release", () => {
  const rising = ["nonsense", "0.0.0", "0.9", "0.10.0", "v0.17.0", "0.17.1.dev3+local", "1.0.0rc1", "10.0.0"];
  for (const [i, a] of rising.entries()) {
    for (const [j, b] of rising.entries())
      assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} ${b}`);
  }
  assert.equal(compareVersions("0.17.0a1", "0.17.0"), 0);
});

test("each reason to refuse a table has a code and a sentence with the remedy", () => {
  const good: VersionRecord = {
    schemaVersion: "0.10.0",
    clientMinVersion: "0.17.0",
    lambdaVersion: undefined,
    updatedBy: "zae-limiter-ts:0.1.0",
  };
  const refusal = (record: VersionRecord | undefined, shared: boolean) => {
    try {
      checkVersion(record, { name: "limits", shared });
      return undefined;
    } catch (error) {
      return error as Error & { code: string };
    }
  };
  for (const [record, shared, code, remedy] of [
    [good, false, undefined, ""],
    [good, true, undefined, ""],
    [undefined, false, "version_missing", "zae-limiter init --stack limits"],
    [{ ...good, updatedBy: "client:0.17.0" }, false, "table_shared", "sharedTable: true"],
    [{ ...good, updatedBy: undefined }, false, "table_shared", "sharedTable: true"],
    [{ ...good, updatedBy: "client:0.17.0" }, true, undefined, ""],
    [{ ...good, schemaVersion: "0.11.0" }, true, "schema_version", "update this package"],
    [{ ...good, schemaVersion: "0.9.0" }, true, "schema_version", "zae-limiter migrate --name limits"],
    [{ ...good, schemaVersion: "" }, true, "schema_version", "migrate"],
    [{ ...good, clientMinVersion: "0.18.0" }, true, "client_version", "update this package"],
    [{ ...good, clientMinVersion: "1000.0.1" }, false, undefined, ""],
    [{ ...good, clientMinVersion: "1000.0.1" }, true, "client_version", "without `sharedTable`"],
    [{ ...good, clientMinVersion: "1000.0.2" }, false, undefined, ""],
    [{ ...good, clientMinVersion: "1000.0.3" }, false, "client_version", "update this package"],
    [{ ...good, clientMinVersion: "1000.0.1", takenOver: "1000.0.0" }, false, undefined, ""],
    [{ ...good, clientMinVersion: "1000.0.0", takenOver: "1000.0.0" }, false, undefined, ""],
    [{ ...good, clientMinVersion: "1000.0.0" }, false, "client_version", "update this package"],
  ] as const) {
    const error = refusal(record, shared);
    assert.equal(error?.code, code);
    assert.ok(error === undefined || (error.message.includes(remedy) && error.message.includes("limits")));
  }
});

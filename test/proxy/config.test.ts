import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { OpenAI } from "openai";
import { startProvider } from "../../examples/fake-provider/provider.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { ProviderKey } from "../../src/proxy/provider-keys.ts";
import { ProxyInvalid, parseProxyConfig } from "../../src/proxy/proxy-config.ts";
import { parseTokens } from "../../src/server/tokens.ts";
import { here } from "../cli/in-process.ts";
import { started } from "../cli/run-bin.ts";
import { tokenOf } from "../server/service-kit.ts";
import { eventually, text } from "./proxy-kit.ts";

function folder(t: TestContext): (name: string, content?: string) => string {
  const path = mkdtempSync(join(tmpdir(), "proxy-"));
  t.after(() => rmSync(path, { recursive: true }));
  return (name, content) => {
    const file = join(path, name);
    if (content !== undefined) writeFileSync(file, content);
    return file;
  };
}

test("a configuration is read whole, with its defaults", () => {
  const provider = "wire: openai, base_url: https://api.openai.com/, key_env: OPENAI_API_KEY";
  assert.deepEqual(parseProxyConfig(`providers: { openai: { ${provider} } }`, "proxy.yaml"), {
    providers: [
      {
        ...{ name: "openai", wire: "openai", baseUrl: "https://api.openai.com" },
        ...{ key: { env: "OPENAI_API_KEY" }, allow: [] },
      },
    ],
    ...{ prices: undefined, weights: undefined, estimate: "learned" },
  });
  const more = "prices: { litellm: map.json, as_of: 2026-11-01 }\nweights: { tpm: { input: 1, output: 2.5 } }";
  const { prices, weights } = parseProxyConfig(`providers: { a: { ${provider} } }\n${more}`, "proxy.yaml");
  assert.deepEqual(
    [prices, weights],
    [{ file: "map.json", litellmAsOf: "2026-11-01" }, { tpm: { input: 1, output: 2.5 } }],
  );
});

test("every problem of a configuration is told at once, with its place", () => {
  const wrong = `providers:
  Open AI: { wire: openai, base_url: https://api.openai.com, key_env: K }
  one: { wire: azure, base_url: "ftp://x", key_env: K, key_file: f }
  two: { wires: openai, base_url: https://me:secret@x, allow: ["/v1/x"] }
weights: { tpm: { inputs: 1, output: -1 } }
estimate: best
`;
  const error = (() => {
    try {
      return parseProxyConfig(wrong, "proxy.yaml");
    } catch (thrown) {
      return thrown;
    }
  })();
  assert.ok(error instanceof ProxyInvalid);
  assert.deepEqual(
    error.problems.map(({ code, line, path }) => `${line} ${path} ${code}`),
    [
      "2 /providers/Open AI name_invalid",
      "3 /providers/one/wire value_invalid",
      "3 /providers/one/base_url value_invalid",
      "3 /providers/one/key_file value_invalid",
      "4 /providers/two key_missing",
      "4 /providers/two key_missing",
      "4 /providers/two/wires key_unknown",
      "4 /providers/two/base_url value_invalid",
      "4 /providers/two/allow/0 value_invalid",
      "5 /weights/tpm/inputs key_unknown",
      "5 /weights/tpm/output value_invalid",
      "6 /estimate value_invalid",
    ],
  );
  assert.ok(!error.message.includes("secret"));
  assert.throws(() => parseProxyConfig("estimate: plain", "proxy.yaml"), {
    code: "proxy_invalid",
    message: /no providers/,
  });
  assert.throws(() => parseProxyConfig("", "proxy.yaml"), { code: "proxy_invalid" });
});

test("a key is read again when its file changes, and kept while the file cannot be read", (t) => {
  const file = folder(t)("key", "sk-one\n");
  const logged: string[] = [];
  let nowMs = 1_000;
  const key = new ProviderKey({ file }, { env: {}, log: (line) => logged.push(line), now: () => nowMs });
  assert.equal(key.now(), "sk-one");
  writeFileSync(file, "sk-two-longer");
  assert.equal(key.now(), "sk-one", "the file is not looked at for each call");
  nowMs += 500;
  assert.equal(key.now(), "sk-two-longer");
  writeFileSync(file, "");
  nowMs += 500;
  assert.equal(key.now(), "sk-two-longer");
  assert.ok(!logged.join("\n").includes("sk-"), logged.join("\n"));
  assert.throws(() => new ProviderKey({ env: "NONE" }, { env: {}, log: () => {}, now: () => 0 }), {
    ...{ code: "provider_key_invalid", message: /NONE is empty/ },
  });
});

test("a token of the scope proxy has one namespace, which is charged, and may name an entity", () => {
  const entry = (more: object) =>
    JSON.stringify({
      tokens: [{ id: "a", sha256: "0".repeat(64), namespaces: ["default"], scopes: ["proxy"], ...more }],
    });
  assert.equal(parseTokens(entry({ entityId: "key-1" }), "the file")[0]?.entityId, "key-1");
  for (const wrong of [{ namespaces: "*" }, { namespaces: ["a", "b"] }, { entityId: "" }]) {
    assert.throws(() => parseTokens(entry(wrong), "the file"), { code: "tokens_invalid" });
  }
});

test("the command needs a configuration, tokens and keys that are there, and says which is not", async (t) => {
  const file = folder(t);
  const config = file("proxy.yaml", "providers: { a: { wire: openai, base_url: http://127.0.0.1:9, key_env: KEY } }");
  const tokens = file("tokens.json", '{ "tokens": [] }');
  const run = async (args: readonly string[]) => {
    const { code, stdout, stderr } = await here(["proxy", ...args]);
    assert.equal(stdout, "");
    return [code, stderr];
  };
  assert.match(String(await run(["--token-file", tokens])), /^2,No configuration/);
  assert.match(String(await run(["--config", config])), /^2,The callers need tokens/);
  assert.match(
    String(await run(["--config", config, "--token-file", tokens])),
    /^2,The environment variable KEY is empty/,
  );
  assert.match(
    String(await run(["--config", file("no"), "--token-file", tokens])),
    /^2,The configuration .* cannot be read/,
  );
  assert.match(
    String(await run(["--config", config, "--token-file", tokens, "--tls-cert", tokens])),
    /^2,tlsKey is missing/,
  );
  assert.match(
    String(await run(["--config", config, "--token-file", tokens, "--tls-cert", tokens, "--tls-key", tokens])),
    /^2,.* are not a certificate and its key/,
  );
  const wrong = await here(["proxy", "--config", file("bad.yaml", "providers: 1"), "--token-file", tokens, "--json"]);
  const { error } = JSON.parse(wrong.stderr) as { error: { code: string; problems: readonly object[] } };
  assert.deepEqual([wrong.code, error.code, error.problems.length], [2, "proxy_invalid", 1]);
});

test("the command says on one line where it listens, limits, logs no keys, and ends by SIGTERM with 0", async (t) => {
  const file = folder(t);
  const provider = await startProvider(() => text());
  t.after(() => provider.close());
  const store = ["--store", `sqlite:${file("limits.db")}`];
  await here(["init", ...store]);
  await here(["entity", "set-limits", "key-1", "-l", "tpm:1000,reset=yearly", "--allow-unknown", ...store]);
  const tokens = file("tokens.json");
  const add = [
    "token",
    "add",
    tokens,
    "--id",
    "app",
    "--entity",
    "key-1",
    "--namespaces",
    "default",
    "--scopes",
    "proxy",
  ];
  const token = (await here(add)).stdout.trim();
  const ops = ["--id", "ops", "--namespaces", "*", "--scopes", "read"];
  const reader = (await here(["token", "add", tokens, ...ops])).stdout.trim();
  file("provider.key", "sk-secret-of-provider\n");
  const config = file(
    "proxy.yaml",
    `providers: { openai: { wire: openai, base_url: "${provider.url}", key_file: provider.key } }\nestimate: plain`,
  );
  const args = ["proxy", "--config", config, "--token-file", tokens, "--port", "0", "--json", ...store];
  const { child, ended, said } = started(args);
  t.after(() => child.kill("SIGKILL"));
  while (!said.stdout.includes("\n")) await new Promise((resolve) => child.stdout.once("data", resolve));
  const { url, ...line } = JSON.parse(said.stdout) as { url: string; port: number };
  assert.deepEqual(line, {
    ...{
      event: "listening",
      host: "127.0.0.1",
      port: Number(new URL(url).port),
      providers: ["openai"],
      pid: child.pid,
    },
  });
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: token, maxRetries: 0 });
  const asked = { model: "gpt-5", messages: [{ role: "user" as const, content: "Hello?" }], max_tokens: 100 };
  await client.chat.completions.create(asked);
  assert.equal(provider.calls[0]?.headers.authorization, "Bearer sk-secret-of-provider");
  await assert.rejects(client.chat.completions.create({ ...asked, max_tokens: 900 }), { status: 429 });
  const asking = async (bearer: string) => {
    const answer = await fetch(`${url}metrics`, { headers: { authorization: `Bearer ${bearer}` } });
    return { status: answer.status, text: await answer.text() };
  };
  assert.equal((await asking(token)).status, 403, "a caller learns nothing of others");
  const { status, text: metrics } = await asking(reader);
  assert.equal(status, 200);
  assert.match(metrics, /^zae_limiter_requests_total\{result="acquired",resource="gpt-5",namespace="default"\} 1$/m);
  assert.match(metrics, /^zae_limiter_requests_total\{result="refused".*\} 1$/m);
  child.kill("SIGTERM");
  const { code, stdout, stderr } = await ended;
  assert.deepEqual([code, stdout.split("\n").length], [0, 2]);
  assert.ok(!stderr.includes("sk-secret") && !stderr.includes(token), stderr);
  const left = await here(["available", "key-1", "gpt-5", "--json", ...store]);
  assert.equal((JSON.parse(left.stdout) as { items: { available: number }[] }).items[0]?.available, 1_000 - 120);
});

test("with --url the budgets are those of a running service, and while it is away nothing is sent", async (t) => {
  const file = folder(t);
  const provider = await startProvider(() => text());
  t.after(() => provider.close());
  const limiter = await RateLimiter.open({ store: "memory", unnamedLimits: "allow" });
  t.after(() => limiter.close());
  await limiter.setLimits("key-1", [Limit.quota("tpm", 1_000, { reset: "yearly" })]);
  const own = tokenOf("proxy", { scopes: ["acquire", "read"] });
  const service = await createService({ limiter, tokens: [own.entry], log: () => {} });
  const { url: at, close } = await service.listen({ port: 0 });
  t.after(close);
  const caller = tokenOf("key-1", { namespaces: ["default"], scopes: ["proxy"] });
  const tokens = file("tokens.json", JSON.stringify({ tokens: [caller.entry] }));
  const config = file(
    "proxy.yaml",
    `providers: { openai: { wire: openai, base_url: "${provider.url}", key_env: KEY } }\nestimate: plain`,
  );
  const args = ["proxy", "--config", config, "--token-file", tokens, "--port", "0", "--json", "--url", at];
  const { child, ended, said } = started(args, { KEY: "sk", ZAEL_TOKEN: own.token });
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  while (!said.stdout.includes("\n")) await new Promise((resolve) => child.stdout.once("data", resolve));
  const { url } = JSON.parse(said.stdout) as { url: string };
  const client = new OpenAI({ baseURL: `${url}openai/v1`, apiKey: caller.token, maxRetries: 0 });
  const asked = { model: "gpt-5", messages: [{ role: "user" as const, content: "Hello?" }], max_tokens: 100 };
  await client.chat.completions.create(asked);
  // The service hears of the end of a call after its caller.
  const isLeft = (tokens: number) =>
    eventually(async () => {
      assert.equal((await limiter.available({ entityId: "key-1", resource: "gpt-5" }))[0]?.available, tokens);
    });
  await isLeft(1_000 - 120);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  assert.equal(streamed, "one two three");
  await isLeft(1_000 - 240);
  await assert.rejects(client.chat.completions.create({ ...asked, max_tokens: 900 }), { status: 429 });
  await close();
  await assert.rejects(client.chat.completions.create(asked), { status: 503 });
  assert.equal(provider.calls.length, 2);
  assert.ok(!said.stderr.includes(own.token) && !said.stderr.includes(caller.token), said.stderr);
});

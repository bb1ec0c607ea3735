import assert from "node:assert/strict";
import { test } from "node:test";
import { estimateTokens } from "./estimate-tokens.ts";

test("four characters are a token, rounded up once for all texts together", () => {
  assert.equal(estimateTokens(""), 0);
  assert.equal(estimateTokens("a"), 1);
  assert.equal(estimateTokens("a".repeat(400)), 100);
  assert.equal(estimateTokens(["a", "b", "c", "d", "e"]), 2);
});

test("messages count their texts, not their roles, ids and types", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "What is it?" }] },
  ];
  assert.equal(estimateTokens(messages), 5);
  assert.equal(estimateTokens({ model: "gpt-5-mini", messages, temperature: 1 }), 5);
});

test("an image, a file or a recording is 1,000 tokens, however long its data", () => {
  const data = "A".repeat(100_000);
  const parts = [
    { type: "image_url", image_url: { url: data } },
    { type: "input_image", image_url: data },
    { type: "input_audio", input_audio: { data } },
    { type: "file", data, mediaType: "image/png" },
    { type: "document", source: { type: "base64", data } },
  ];
  for (const part of parts) assert.equal(estimateTokens([{ role: "user", content: [part] }]), 1_000, part.type);
  assert.equal(estimateTokens([{ role: "user", content: [...parts, { type: "text", text: "eight ch" }] }]), 5_002);
});

test("parameters of each client count what the model reads", () => {
  const eight = "eight ch";
  for (const params of [
    { input: eight, instructions: eight },
    { system: [{ type: "text", text: eight }], messages: [{ role: "user", content: eight }] },
    { prompt: [{ role: "user", content: [{ type: "text", text: eight }] }], messages: [{ parts: [{ text: eight }] }] },
    {
      messages: [
        { role: "user", content: [{ type: "tool_result", content: [{ type: "text", text: `${eight}${eight}` }] }] },
      ],
    },
  ]) {
    assert.equal(estimateTokens(params), 4, JSON.stringify(params));
  }
  for (const nothing of [undefined, null, 7, {}, []]) assert.equal(estimateTokens(nothing), 0);
});

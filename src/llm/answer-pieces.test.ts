import assert from "node:assert/strict";
import { test } from "node:test";
import { type AnswerPiece, bytesOf, eventPieces, wholePieces } from "./answer-pieces.ts";
import { fieldOf, wholeOf } from "./wire-fields.ts";

const READER = {
  usageOf: (body: unknown) => ({ output: wholeOf(fieldOf(fieldOf(body, "usage"), "output")) }),
  eventOf: (data: unknown) => ({ usage: { output: wholeOf(fieldOf(fieldOf(data, "usage"), "output")) } }),
};

function inChunks(text: string, size: number): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  );
  return ReadableStream.from(chunks);
}

async function all<Item>(stream: ReadableStream<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

const usagesOf = (pieces: readonly AnswerPiece[]) =>
  pieces.flatMap(({ usage }) => (usage?.output === undefined ? [] : [usage.output]));

for (const [name, end] of Object.entries({ LF: "\n", CRLF: "\r\n", CR: "\r" })) {
  test(`events with ${name} are found in chunks of any size, and pass as they were sent`, async () => {
    const events = [3, 4, 5].map(
      (output) => `event: x${end}data: {"é":"€\\"","usage":{"output":${output}}}${end}${end}`,
    );
    const text = `: comment${end}${end}${events.join("")}data: {"usage":{"output":6}}`;
    for (let size = 1; size <= 40; size++) {
      const pieces = await all(eventPieces(inChunks(text, size), READER));
      assert.deepEqual(usagesOf(pieces), [3, 4, 5, 6], `chunks of ${size}`);
      const passed = await all(bytesOf(ReadableStream.from(pieces)));
      assert.equal(Buffer.concat(passed).toString(), text);
    }
  });
}

test("a large event costs its length once, a chunk at a time, and its usage is read however large it is", async (t) => {
  let [decoded, parsed, searched] = [0, 0, 0];
  const decode = TextDecoder.prototype.decode;
  t.mock.method(
    TextDecoder.prototype,
    "decode",
    function (this: InstanceType<typeof TextDecoder>, ...given: Parameters<typeof decode>) {
      decoded += (given[0] as Uint8Array | undefined)?.length ?? 0;
      return decode.apply(this, given);
    },
  );
  const parse = JSON.parse;
  t.mock.method(JSON, "parse", (text: string) => {
    parsed += text.length;
    return parse(text);
  });
  const indexOf = Uint8Array.prototype.indexOf;
  t.mock.method(Uint8Array.prototype, "indexOf", function (this: Uint8Array, byte: number, from = 0) {
    const at = indexOf.call(this, byte, from);
    searched += (at < 0 ? this.length : at) - from;
    return at;
  });
  const length = 4_000_000;
  const image = `{"image":"${"A".repeat(length)}","said":"\\\\\\"","usage":{"output":7}}`;
  for (const [text, pieces] of [
    [`event: image\ndata: ${image}\n\n`, eventPieces],
    [image, wholePieces],
  ] as const) {
    [decoded, parsed, searched] = [0, 0, 0];
    assert.deepEqual(usagesOf(await all(pieces(inChunks(text, 16_384), READER))), [7]);
    assert.equal(decoded, text.length);
    assert.ok(searched <= 2 * text.length, `${searched} of ${text.length} bytes were searched`);
    assert.ok(parsed < 1_100_000, `${parsed} characters were parsed at once`);
  }
});

import { createServer } from "node:http";
import { crc32 } from "node:zlib";

// Answers every request with what UpdateItem returns for a taken bucket of two limits. A process of its own, so that only the
// client's work is counted.

const body = Buffer.from(
  JSON.stringify({
    Attributes: {
      PK: { S: "ns/ENTITY#user-1" },
      SK: { S: "#BUCKET#gpt-4#0" },
      b_rpm_tk: { N: "59000" },
      b_tpm_tk: { N: "99500000" },
      rf: { N: "1700000000000" },
      n: { S: "0123456789abcdef" },
    },
  }),
);
const headers = {
  "content-type": "application/x-amz-json-1.0",
  "content-length": body.length,
  "x-amzn-requestid": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEF",
  "x-amz-crc32": String(crc32(body)),
  server: "Server",
};

const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, headers);
    response.end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.send?.(typeof address === "object" ? address?.port : undefined);
});
process.on("disconnect", () => process.exit());

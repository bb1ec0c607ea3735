import assert from "node:assert/strict";
import { here, type RanHere } from "../cli/in-process.ts";

/** Command lines against an AWS at an address, in this process. */
export class StackShell {
  readonly endpoint: string;

  constructor(endpoint: string) {
    this.endpoint = endpoint.replace(/\/$/, "");
    // The SDK reads these from the environment of the process.
    Object.assign(process.env, { AWS_REGION: REGION, AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" });
    delete process.env.AWS_PROFILE;
  }

  run(line: string, options: { readonly answer?: string } = {}): Promise<RanHere> {
    const timeout = ["--timeout", "60s", "--endpoint", this.endpoint];
    return here([...line.split(" "), ...timeout], { ...options, env: { NO_COLOR: "1" } });
  }

  /** What a command answers that ends well. */
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON there is.
  async json(line: string): Promise<any> {
    const { code, stdout, stderr } = await this.run(`${line} --json`);
    assert.equal(code, 0, `${line}: ${stderr}`);
    assert.equal(stderr, "", line);
    return JSON.parse(stdout);
  }

  /** The code of the error that a command ends with, after its exit code. */
  async fault(line: string): Promise<string> {
    const { code, stdout, stderr } = await this.run(`${line} --json`);
    assert.notEqual(code, 0, `${line}: ${stdout}`);
    assert.equal(stdout, "", line);
    const { error } = JSON.parse(stderr) as { error: { code: string; message: string; exitCode: number } };
    assert.equal(error.exitCode, code);
    return `${code} ${error.code}: ${error.message}`;
  }
}

export const REGION = "us-east-1";
export const CREDENTIALS = { accessKeyId: "test", secretAccessKey: "test" };

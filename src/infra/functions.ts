import { createHash } from "node:crypto";
import { LimiterError } from "../domain/names/errors.ts";
import { type AwsConfig, awsFault, openLambda } from "./aws-clients.ts";
import { TAG } from "./stack-names.ts";

interface FunctionState {
  readonly arn: string;
  /** The hash of its code, in base64. */
  readonly sha256: string;
  /** The version of the package whose code it has; undefined: no tag says it. */
  readonly version: string | undefined;
}

type Opened = Awaited<ReturnType<typeof openLambda>>;

export class Functions {
  readonly #lambda: Opened;
  readonly #sleep: (ms: number) => Promise<void>;

  private constructor(lambda: Opened, sleep: (ms: number) => Promise<void>) {
    this.#lambda = lambda;
    this.#sleep = sleep;
  }

  static async open(aws: AwsConfig, sleep: (ms: number) => Promise<void>): Promise<Functions> {
    return new Functions(await openLambda(aws), sleep);
  }

  close(): void {
    this.#lambda.client.destroy();
  }

  /** Reads a function's state. Undefined: there is no such function. */
  async state(name: string): Promise<FunctionState | undefined> {
    const { sdk, client } = this.#lambda;
    try {
      const { Configuration, Tags } = await client.send(new sdk.GetFunctionCommand({ FunctionName: name }));
      const { FunctionArn: arn = "", CodeSha256: sha256 = "" } = Configuration ?? {};
      return { arn, sha256, version: Tags?.[TAG.lambdaVersion] };
    } catch (cause) {
      if (cause instanceof Error && cause.name === "ResourceNotFoundException") return undefined;
      throw awsFault(cause, `look at the function ${name}`);
    }
  }

  /** Uploads the code, waits until it runs, and tags it with the version. */
  async upload(name: string, { bytes, sha256 }: LambdaZip, version: string): Promise<void> {
    const { sdk, client } = this.#lambda;
    try {
      await this.#untilChangeable(name);
      const { FunctionArn } = await client.send(
        new sdk.UpdateFunctionCodeCommand({ FunctionName: name, ZipFile: bytes, Architectures: ["arm64"] }),
      );
      await this.#untilChangeable(name);
      const state = await this.state(name);
      if (state?.sha256 !== sha256) {
        throw new LimiterError(
          "code_mismatch",
          `The code of the function ${name} has the hash ${state?.sha256}, not ${sha256} as uploaded: another deployment is running. Try again.`,
        );
      }
      await client.send(new sdk.TagResourceCommand({ Resource: FunctionArn, Tags: { [TAG.lambdaVersion]: version } }));
    } catch (cause) {
      throw awsFault(cause, `upload the code of ${name}`);
    }
  }

  /** Waits while a function refuses changes, which it does for some seconds after each. */
  async #untilChangeable(name: string): Promise<void> {
    const { sdk, client } = this.#lambda;
    for (let poll = 0; poll < POLLS_MAX; poll++) {
      const { State, LastUpdateStatus, LastUpdateStatusReason } = await client.send(
        new sdk.GetFunctionConfigurationCommand({ FunctionName: name }),
      );
      if (LastUpdateStatus === "Failed") {
        throw new LimiterError("code_failed", `Lambda refuses the code of ${name}: ${LastUpdateStatusReason}.`);
      }
      if (State !== "Pending" && LastUpdateStatus !== "InProgress") return;
      await this.#sleep(POLL_MS);
    }
    throw new LimiterError(
      "code_failed",
      `The function ${name} is still being updated after minutes; try again later.`,
    );
  }
}

const POLL_MS = 1_000;
const POLLS_MAX = 300;

/** A function's code as Lambda takes it. */
export interface LambdaZip {
  /** The whole zip. */
  readonly bytes: Uint8Array;
  /** The hash in base64, as Lambda reports it. */
  readonly sha256: string;
}

export function lambdaZip(bytes: Uint8Array): LambdaZip {
  return { bytes, sha256: createHash("sha256").update(bytes).digest("base64") };
}

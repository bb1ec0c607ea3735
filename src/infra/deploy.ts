import { ConflictError, ExistsError, LimiterError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { AwsConfig } from "./aws-clients.ts";
import { CloudFormation, conditionOf, type StackDescription, type StackInput } from "./cloudformation.ts";
import { Functions, type LambdaZip } from "./functions.ts";
import { requireFit, requireOurs, type TableState, tableState } from "./inspect-stack.ts";
import { tableNameOf } from "./parts.ts";
import {
  additions,
  differencesOf,
  refuseIndexChanges,
  refuseLosses,
  type StackChange,
  stagesTo,
} from "./stack-changes.ts";
import { checkTags, managedTags, NAMES, userTags } from "./stack-names.ts";
import {
  checkedOptions,
  type FullStackOptions,
  hasAggregator,
  hasArchive,
  hasProvisioner,
  type StackOptions,
} from "./stack-options.ts";
import { EventTrail, failureText, pastFailures, type StackProgress, untilSettled, type Waiting } from "./stack-wait.ts";
import { optionsIn, PARAMETERS, structureIn, templateOf } from "./template.ts";

export interface DeployRequest {
  readonly name: string;
  /** The options that were given. Other options of an existing stack stay as they are. */
  readonly options: StackOptions;
  readonly tags: Readonly<Record<string, string>>;
  readonly dryRun: boolean;
  /** The stack must be there. */
  readonly mustExist: boolean;
}

interface DeployDeps {
  readonly aws: AwsConfig;
  readonly version: string;
  readonly code: (name: "aggregator" | "provisioner") => Promise<LambdaZip>;
  readonly sleep: (ms: number) => Promise<void>;
  /** Throws if the caller no longer waits. */
  readonly requireWanted: () => void;
  readonly onProgress: (event: StackProgress) => void;
  /** Shows changes of an existing stack, and throws if they are not wanted. */
  readonly confirm: (changes: readonly StackChange[]) => Promise<void>;
  /** Throws if a table exists that must not be touched. */
  readonly checkTable: (table: string) => Promise<void>;
  /** Sets up the table; `hasFunctions`: they have the code of this version. */
  readonly prepare: (table: string, options: FullStackOptions, hasFunctions: boolean) => Promise<void>;
  /** A name that no change set has yet. */
  readonly newName: () => string;
}

export interface Deployed {
  readonly action: "create" | "update" | "none";
  readonly changes: readonly StackChange[];
  readonly functions: Readonly<Record<string, { readonly name: string; readonly sha256: string }>>;
  readonly table: string;
}

/** Makes the stack, or changes it to what is asked for. Changes are shown before they are made. */
export async function deploy(request: DeployRequest, deps: DeployDeps): Promise<Deployed> {
  // Check the options before anything is called. A stack from before may have shorter names, which allow a longer one of its own.
  refuseForeignCode(checkedOptions({ regionalNames: false, ...request.options, name: request.name }));
  checkTags(request.tags);
  const cloudFormation = await CloudFormation.open(deps.aws, deps.sleep);
  const functions = await Functions.open(deps.aws, deps.sleep);
  try {
    return await new Deployment(request, deps, cloudFormation, functions).run();
  } finally {
    cloudFormation.close();
    functions.close();
  }
}

interface FunctionCode {
  readonly key: string;
  readonly logicalId: string;
  readonly functionName: string;
  readonly zip: LambdaZip;
}

class Deployment {
  readonly #request: DeployRequest;
  readonly #deps: DeployDeps;
  readonly #cloudFormation: CloudFormation;
  readonly #functions: Functions;
  readonly #waiting: Waiting;

  constructor(request: DeployRequest, deps: DeployDeps, cloudFormation: CloudFormation, functions: Functions) {
    this.#request = request;
    this.#deps = deps;
    this.#cloudFormation = cloudFormation;
    this.#functions = functions;
    const { sleep, requireWanted, onProgress } = deps;
    this.#waiting = { cloudFormation, sleep, requireWanted, onProgress };
  }

  async run(): Promise<Deployed> {
    const { name, mustExist } = this.#request;
    const stack = await this.#requireChangeable(await this.#cloudFormation.describe(name));
    if (stack === undefined && mustExist) {
      throw new NotFoundError(
        "stack_not_found",
        `There is no stack "${name}" in this region; create it with \`zae-limiter deploy -n ${name}\`, or correct the name.`,
      );
    }
    return stack === undefined ? this.#create() : this.#update(stack);
  }

  async #create(): Promise<Deployed> {
    const { name, options: asked, tags, dryRun } = this.#request;
    const options = checkedOptions({ ...asked, name });
    const template = templateOf(options);
    await this.#requireTable(options);
    if (options.tableArn === undefined) refuseTableLeft(name, await tableState(this.#deps.aws, name));
    const code = await this.#codeOf(options);
    const deployed = {
      action: "create",
      changes: additions(template.Resources),
      ...this.#answer(options, code),
    } as const;
    if (dryRun) return deployed;
    const input = this.#input(options, { ...tags, ...managedTags(name, this.#deps.version) });
    const trail = await EventTrail.from(this.#waiting, undefined);
    await this.#cloudFormation.create(input);
    await this.#untilDone(trail, "made");
    for (const { functionName, zip } of code) await this.#functions.upload(functionName, zip, this.#deps.version);
    await this.#deps.prepare(deployed.table, options, code.length > 0);
    return deployed;
  }

  async #update(stack: StackDescription): Promise<Deployed> {
    const { name, options: asked, tags, dryRun } = this.#request;
    const before = await this.#cloudFormation.template(name);
    const options = checkedOptions({
      // A stack from before names had the region keeps its names.
      regionalNames: false,
      ...structureIn(before),
      ...optionsIn(stack.parameters),
      ...asked,
      name,
    });
    refuseForeignCode(options);
    await this.#requireTable(options);
    const code = await this.#codeOf(options);
    const uploads = await this.#uploadsOf(code);
    const allTags = { ...userTags(stack.tags), ...tags, ...managedTags(name, this.#deps.version) };
    checkTags(userTags(allTags));
    const input = this.#input(options, allTags);
    const wanted = JSON.parse(input.template) as object;
    refuseIndexChanges(name, before, wanted);
    const [first = wanted, ...later] = stagesTo(before, wanted);
    const set = await this.#cloudFormation.changeSet(withTemplate(input, first), this.#deps.newName());
    if (set.kind === "failed") {
      throw new LimiterError("change_failed", `CloudFormation cannot change the stack ${name}: ${set.reason}`);
    }
    const templates = { before, after: wanted };
    const differences = set.kind === "none" ? [] : differencesOf(stack, input, { resources: set.changes, templates });
    const changes = [...differences, ...uploads.map(({ change }) => change)];
    const action = changes.length === 0 ? "none" : "update";
    const deployed = { action, changes, ...this.#answer(options, code) } as const;
    try {
      refuseLosses(name, changes);
      if (!dryRun && action === "update") await this.#deps.confirm(changes);
    } catch (error) {
      if (set.kind === "changes") await this.#cloudFormation.dropChangeSet(name, set.id);
      throw error;
    }
    if (set.kind === "changes" && (dryRun || differences.length === 0)) {
      await this.#cloudFormation.dropChangeSet(name, set.id);
    } else if (set.kind === "changes") {
      const trail = await EventTrail.from(this.#waiting, stack);
      await this.#cloudFormation.execute(name, set.id);
      await this.#untilDone(trail, "changed");
      for (const stage of later) await this.#executeStage(withTemplate(input, stage));
    }
    if (dryRun) return deployed;
    // The template changes before the code, so that new code never runs with old rights. A function that the change made has no code yet.
    for (const { functionName, zip } of await this.#uploadsOf(code)) {
      await this.#functions.upload(functionName, zip, this.#deps.version);
    }
    await this.#deps.prepare(deployed.table, options, code.length > 0);
    return deployed;
  }

  /** Makes one more stage of a change that was shown as a whole. */
  async #executeStage(input: StackInput): Promise<void> {
    const { name } = this.#request;
    const stack = await this.#requireChangeable(await this.#cloudFormation.describe(name));
    const before = await this.#cloudFormation.template(name);
    const set = await this.#cloudFormation.changeSet(input, this.#deps.newName());
    if (set.kind === "none") return;
    if (set.kind === "failed" || stack === undefined) {
      const why = set.kind === "failed" ? set.reason : "it is gone";
      throw new LimiterError("change_failed", `CloudFormation cannot continue to change the stack ${name}: ${why}`);
    }
    const templates = { before, after: JSON.parse(input.template) };
    refuseLosses(name, differencesOf(stack, input, { resources: set.changes, templates }));
    const trail = await EventTrail.from(this.#waiting, stack);
    await this.#cloudFormation.execute(name, set.id);
    await this.#untilDone(trail, "changed");
  }

  /** Throws if the stack cannot be changed; waits while another change is under way. */
  async #requireChangeable(stack: StackDescription | undefined): Promise<StackDescription | undefined> {
    if (stack === undefined) return undefined;
    requireOurs(stack);
    const { name, status } = stack;
    switch (conditionOf(status)) {
      case "ready":
        return stack;
      case "gone":
        return undefined;
      case "busy": {
        const trail = await EventTrail.from(this.#waiting, stack);
        return this.#requireChangeable(await untilSettled(this.#waiting, stack.id, trail));
      }
      case "unmade": {
        const why = failureText(await pastFailures(this.#cloudFormation, stack.id));
        throw new ConflictError(
          "stack_failed",
          `The stack "${name}" was never created (${status}): ${why}. Delete its remains with ` +
            `\`zae-limiter delete -n ${name}\`, fix the cause, and deploy again.`,
        );
      }
      case "stuck": {
        const why = failureText(await pastFailures(this.#cloudFormation, stack.id));
        throw new ConflictError(
          "stack_failed",
          `The stack "${name}" is ${status}: ${why}. ` +
            (status.startsWith("DELETE")
              ? `Fix the cause and continue with \`zae-limiter delete -n ${name}\`.`
              : `Fix the cause and continue with \`aws cloudformation continue-update-rollback --stack-name ${name}\`.`),
        );
      }
    }
  }

  async #untilDone(trail: EventTrail, what: "made" | "changed"): Promise<void> {
    const { name } = this.#request;
    const stack = await untilSettled(this.#waiting, name, trail);
    if (stack?.status === (what === "made" ? "CREATE_COMPLETE" : "UPDATE_COMPLETE")) return;
    const why = failureText(trail.failures);
    const remedy =
      what === "made"
        ? `Delete its remains with \`zae-limiter delete -n ${name}\`, fix the cause, and deploy again.`
        : "The previous version still works; fix the cause and deploy again.";
    throw new LimiterError(
      "deploy_failed",
      `The stack "${name}" was not ${what} (${stack?.status ?? "it is gone"}): ${why}. ${remedy}`,
    );
  }

  /** Throws if a table of the user's does not fit, or if the stack's table must not be touched. */
  async #requireTable(options: FullStackOptions): Promise<void> {
    const table = this.#tableOf(options);
    if (options.tableArn !== undefined) {
      requireFit(table, await tableState(this.#deps.aws, table), { needsStream: hasArchive(options) });
    }
    await this.#deps.checkTable(table);
  }

  #tableOf({ tableArn }: FullStackOptions): string {
    return tableArn === undefined ? this.#request.name : tableNameOf(tableArn);
  }

  #input(options: FullStackOptions, tags: Readonly<Record<string, string>>): StackInput {
    const template = templateOf(options);
    const parameters = Object.keys(template.Parameters).map((key) => [key, PARAMETERS[key]?.value(options) ?? ""]);
    return {
      name: this.#request.name,
      template: JSON.stringify(template),
      parameters: Object.fromEntries(parameters),
      tags,
    };
  }

  async #codeOf(options: FullStackOptions): Promise<readonly FunctionCode[]> {
    const { name } = this.#request;
    const wanted = [
      ...(hasAggregator(options) ? (["aggregator"] as const) : []),
      ...(hasProvisioner(options) ? (["provisioner"] as const) : []),
    ];
    return Promise.all(
      wanted.map(async (which) => ({
        key: which === "aggregator" ? "aggregator" : "limits-provisioner",
        logicalId: which === "aggregator" ? "AggregatorFunction" : "ProvisionerFunction",
        functionName: `${name}${NAMES[which]}`,
        zip: await this.#deps.code(which),
      })),
    );
  }

  /** Selects the functions whose code differs from what is deployed. */
  async #uploadsOf(code: readonly FunctionCode[]) {
    const compared = await Promise.all(
      code.map(async (each) => ({ ...each, before: await this.#functions.state(each.functionName) })),
    );
    return compared
      .filter(({ before, zip }) => before?.sha256 !== zip.sha256)
      .map(({ before, ...each }) => ({
        ...each,
        change: {
          action: "Modify",
          logicalId: each.logicalId,
          type: "AWS::Lambda::Function",
          ...given({ from: before && { CodeSha256: before.sha256 } }),
          to: { CodeSha256: each.zip.sha256 },
        } as const,
      }));
  }

  #answer(options: FullStackOptions, code: readonly FunctionCode[]) {
    return {
      functions: Object.fromEntries(
        code.map(({ key, functionName, zip }) => [key, { name: functionName, sha256: zip.sha256 }]),
      ),
      table: this.#tableOf(options),
    };
  }
}

function withTemplate(input: StackInput, template: object): StackInput {
  return { ...input, template: JSON.stringify(template) };
}

function refuseForeignCode({ codeBucket }: FullStackOptions): void {
  if (codeBucket === undefined) return;
  throw new ValidationError(
    "option_invalid",
    `The functions' code comes from the bucket ${codeBucket}, so another tool deployed this template; change the stack with that tool ` +
      "(`deploy` uploads the code itself).",
  );
}

/** Throws if the table exists: CloudFormation would begin, fail at the table, and take everything back. */
function refuseTableLeft(name: string, table: TableState | undefined): void {
  if (table === undefined) return;
  throw new ExistsError(
    "table_exists",
    `A table "${name}" exists outside of any stack; tables stay when their stack is deleted. Use it with ` +
      `--table-arn and --stream-arn, choose another name, or delete it.`,
  );
}

import type { DeclaredPiece, Piece, PieceValue } from "../domain/config/piece.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";

/** What a file declares. */
export interface Manifest {
  /** The namespace. Absent: that of the limiter it is planned on. */
  readonly namespace?: string;
  /** The owner of the pieces. Absent: the owner that `planManifest` is given, else `default`. */
  readonly owner?: string;
  /** The declared pieces. */
  readonly pieces: readonly DeclaredPiece[];
  /** Declarations that can be applied but are probably mistakes. */
  readonly warnings: readonly string[];
  /** The text that it was read from, for saved plans. */
  readonly text?: string;
}

/** The kind of a problem. It does not change between versions. */
export type ProblemCode =
  | "yaml_syntax"
  | "empty"
  | "key_unknown"
  | "key_duplicate"
  | "key_missing"
  | "name_invalid"
  | "value_invalid"
  | "limit_invalid"
  | "cron_invalid";

/** One thing that is wrong with a file, and where. */
export interface FileProblem<Code extends string> extends Omit<ManifestProblem, "code"> {
  readonly code: Code;
}

/** One thing that is wrong with a manifest, and where. */
export interface ManifestProblem {
  /** The line, from 1; 0 if a service was sent JSON. */
  readonly line: number;
  /** The column, from 1; 0 if a service was sent JSON. */
  readonly column: number;
  /** A JSON pointer to the place: `/resources/gpt-4/limits/rpm/capacity`. */
  readonly path: string;
  /** The code. It does not change between versions: programs may branch on it. */
  readonly code: ProblemCode;
  /** What is wrong, with the value and the remedy. */
  readonly message: string;
}

/** Everything that is wrong with a manifest, at once. */
export class ManifestInvalid extends ValidationError {
  /** The name of the file, if the text came from one. */
  readonly file: string | undefined;
  /** The problems, in the order of the file. */
  readonly problems: readonly ManifestProblem[];

  /** @internal */
  constructor(file: string | undefined, problems: readonly ManifestProblem[]) {
    super("manifest_invalid", problemLines(file, problems));
    this.file = file;
    this.problems = problems;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), ...given({ file: this.file }), problems: this.problems };
  }
}

/** The problems of a file as text, a line each. */
export function problemLines(file: string | undefined, problems: readonly FileProblem<string>[]): string {
  const where = file === undefined ? "" : `${file}:`;
  return problems
    .map(({ line, column, path, message }) => `${where}${line === 0 ? path || "/" : `${line}:${column}`}: ${message}`)
    .join("\n");
}

/** The owner of a manifest that names none. */
export const OWNER_DEFAULT = "default";

/** One change of a plan. */
export interface Change extends Piece {
  /** What is done with the piece. */
  readonly action: "create" | "update" | "delete" | "adopt" | "release";
  /** The value before; `null`: none. */
  readonly before: PieceValue | null;
  /** The value after; `null`: none. */
  readonly after: PieceValue | null;
  /** Whether the stored value differs from the one that was last applied. */
  readonly drift: boolean;
  /** Something that was set with an end hides it until then, in ms since 1970. Absent: nothing does. */
  readonly overrideUntilMs?: number;
  /** After an apply: whether the change was made. */
  readonly done?: boolean;
}

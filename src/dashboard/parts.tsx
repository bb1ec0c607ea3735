import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "./api.ts";
import { hrefOf, type PageName } from "./route.ts";
import { whole } from "./words.ts";

/** The heading of a page, and what can be done on all of it. */
export function PageHead(props: {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="page-head">
      <div>
        <h1 data-testid="page-title" tabIndex={-1}>
          {props.title}
        </h1>
        {props.note !== undefined && <p class="page-note">{props.note}</p>}
      </div>
      {props.children !== undefined && <div class="page-actions">{props.children}</div>}
    </div>
  );
}

/** There is nothing yet, and what to do about it. */
export function Empty(props: {
  readonly title: string;
  readonly command?: string;
  readonly children: ComponentChildren;
}) {
  return (
    <div class="empty" data-testid="empty">
      <h2>{props.title}</h2>
      <p>{props.children}</p>
      {props.command !== undefined && <Command text={props.command} />}
    </div>
  );
}

/** A command to be copied. */
function Command({ text }: { readonly text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2_000);
    } catch {
      // No clipboard on this page: the text can still be selected.
    }
  };
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="button small" onClick={() => void copy()}>
        {isCopied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

export function ErrorNote({
  error,
  testid = "error",
}: {
  readonly error: ApiError | undefined;
  readonly testid?: string;
}) {
  if (error === undefined) return null;
  return (
    <div class="note bad" role="alert" data-testid={testid} data-code={error.code}>
      <strong>{titleOf(error)}</strong>
      <span>{error.message}</span>
      {error.errors.length > 0 && (
        <ul>
          {error.errors.map(({ pointer, detail }) => (
            <li key={pointer}>
              <code>{pointer || "/"}</code> {detail}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function titleOf({ status, code }: ApiError): string {
  if (code === "insufficient_scope") return "The token lacks a scope.";
  if (code === "namespace_forbidden") return "The token has no access to this namespace.";
  if (code === "form") return "Not sent yet.";
  if (code === "page_failed") return "This page failed.";
  if (status === 0) return "Not connected.";
  if (status === 409 || status === 412) return "Changed in the meantime.";
  return status >= 500 ? "The service failed." : "Not accepted.";
}

/** A name that may be far too long: it wraps, and where a list shortens it, it is whole in its tooltip. */
export function Name({ text, class: kind = "" }: { readonly text: string; readonly class?: string }) {
  return (
    <span class={`name ${kind}`} title={text}>
      {text}
    </span>
  );
}

export function Link(props: {
  readonly page: PageName;
  readonly params?: Readonly<Record<string, string | undefined>>;
  readonly children: ComponentChildren;
  readonly class?: string;
}) {
  return (
    <a class={props.class ?? "link"} href={hrefOf(props.page, props.params)}>
      {props.children}
    </a>
  );
}

/** A label above what it names. */
export function Field(props: {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly class?: string;
  readonly children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children.
    <label class={`field ${props.class ?? ""}`}>
      <span>{props.label}</span>
      {props.children}
      {props.hint !== undefined && <small>{props.hint}</small>}
    </label>
  );
}

export function Select(props: {
  readonly value: string;
  readonly options: readonly { readonly value: string; readonly label: string; readonly disabled?: boolean }[];
  readonly testid?: string;
  readonly label?: string;
  readonly disabled?: boolean;
  readonly onChange: (value: string) => void;
}) {
  return (
    <span class="select">
      <select
        value={props.value}
        data-testid={props.testid}
        aria-label={props.label}
        disabled={props.disabled}
        onChange={(event) => props.onChange(event.currentTarget.value)}
      >
        {props.options.map(({ value, label, disabled }) => (
          <option key={value} value={value} disabled={disabled}>
            {label}
          </option>
        ))}
      </select>
    </span>
  );
}

/** Older and newer pages of a list. */
export function Pager(props: {
  readonly page: number;
  readonly count: number;
  readonly what: string;
  readonly hasNext: boolean;
  readonly onPage: (page: number) => void;
}) {
  const { page, count, what, hasNext, onPage } = props;
  if (page === 0 && !hasNext) return null;
  return (
    <nav class="pager" aria-label={`Pages of ${what}`}>
      <button
        type="button"
        class="button small"
        disabled={page === 0}
        data-testid="pager-previous"
        onClick={() => onPage(page - 1)}
      >
        Previous
      </button>
      <span>
        Page {whole(page + 1)}, {whole(count)} {what}
      </span>
      <button
        type="button"
        class="button small"
        disabled={!hasNext}
        data-testid="pager-next"
        onClick={() => onPage(page + 1)}
      >
        Next
      </button>
    </nav>
  );
}

/** The value once it has not changed for a moment: a filter asks the server, and not at every key. */
export function useSettled<Value>(value: Value, ms: number): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Calls again and again while the page can be seen. */
export function useEvery(ms: number, act: () => void): void {
  const current = useRef(act);
  current.current = act;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") current.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}

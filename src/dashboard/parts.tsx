import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApiError } from "./api.ts";
import type { FieldChange } from "./audit-change.ts";
import { hrefOf, type PageName } from "./route.ts";

/** The heading of a page, with the actions on all of it. */
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

/** Shown where a list is empty: the title, the next step, and a command for it. */
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

function Command({ text }: { readonly text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), 2_000);
    } catch {
      // The page has no clipboard: the text can still be selected.
    }
  };
  return (
    <div class="command">
      <code>{text}</code>
      <Button kind="small" onClick={() => void copy()}>
        {isCopied ? "Copied" : "Copy"}
      </Button>
    </div>
  );
}

export function ErrorNote(props: { readonly error: ApiError | undefined; readonly testid?: string }) {
  const { error, testid = "error" } = props;
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

/** A name of any length. It wraps; where a list shortens it, its tooltip has all of it. */
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

/** A button; `kind`: further classes, such as `small danger`. */
export function Button(props: ComponentProps<"button"> & { readonly kind?: string; readonly testid?: string }) {
  const { kind, testid, ...rest } = props;
  return (
    <button type="button" class={kind === undefined ? "button" : `button ${kind}`} data-testid={testid} {...rest} />
  );
}

/** A button that looks like a link. */
export function LinkButton({ testid, ...rest }: ComponentProps<"button"> & { readonly testid?: string }) {
  return <button type="button" class="link-button" data-testid={testid} {...rest} />;
}

/** A form that never leaves the page. */
export function Form(props: Omit<ComponentProps<"form">, "onSubmit"> & { readonly onSubmit?: () => void }) {
  const { onSubmit, ...rest } = props;
  return (
    <form
      {...rest}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit?.();
      }}
    />
  );
}

/** A control with its label above it. */
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

interface InputProps {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly testid?: string;
  readonly type?: "search";
  readonly placeholder?: string | undefined;
  readonly title?: string;
  readonly inputMode?: "numeric";
  readonly readOnly?: boolean;
  /** The field takes the focus when it appears. */
  readonly focuses?: boolean;
  /** Completions; any other text can be typed. */
  readonly offered?: readonly { readonly value: string; readonly label?: string | undefined }[];
}

/** A field for a name or a number, which the browser does not correct. */
export function TextInput({ value, onValue, testid, focuses, offered, ...rest }: InputProps) {
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (focuses) input.current?.focus();
  }, []);
  return (
    <>
      <input
        ref={input}
        type="text"
        data-testid={testid}
        value={value}
        autocomplete="off"
        spellcheck={false}
        list={offered === undefined ? undefined : list}
        {...rest}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      {offered !== undefined && (
        <datalist id={list}>
          {offered.map((each) => (
            <option key={each.value} value={each.value}>
              {each.label}
            </option>
          ))}
        </datalist>
      )}
    </>
  );
}

/** The filter of a page; `label` is for screen readers. */
export function SearchInput({ label, ...rest }: InputProps & { readonly label: string }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is inside TextInput.
    <label class="search">
      <span class="unseen">{label}</span>
      <TextInput type="search" {...rest} />
    </label>
  );
}

export function Check(props: {
  readonly label: string;
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly testid?: string;
  readonly isDisabled?: boolean;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        data-testid={props.testid}
        checked={props.isChecked}
        disabled={props.isDisabled}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>{props.label}</span>
    </label>
  );
}

/** Values with their labels; a plain text is both. */
type Options = readonly (string | { readonly value: string; readonly label: string; readonly disabled?: boolean })[];

export function Select(props: {
  readonly value: string;
  readonly options: Options;
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
        {props.options.map((option) => {
          const { value, label, disabled } =
            typeof option === "string" ? { value: option, label: option, disabled: false } : option;
          return (
            <option key={value} value={value} disabled={disabled}>
              {label}
            </option>
          );
        })}
      </select>
    </span>
  );
}

/** Labels with their values. */
export function Facts(props: { readonly facts: readonly (readonly [label: string, text: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {props.facts.map(([label, text]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd class="wrap">{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Fields with their old and their new values. */
export function ChangeList({ changes }: { readonly changes: readonly FieldChange[] }) {
  return (
    <ul class="changes">
      {changes.map(({ field, before, after }) => (
        <li key={field}>
          <b>{field}</b>{" "}
          {before === undefined ? <i class="quiet">older than this page</i> : before !== "none" && <s>{before}</s>} →{" "}
          <span>{after}</span>
        </li>
      ))}
    </ul>
  );
}

import { ts } from "@ts-morph/common";

/** Type parameters that only carry names of measures: a reader of the reference does not miss them. */
const NAMES = /<(?:Name|Measure|string, Measure|Name, Measure|(?:NoInfer<Measure>|Measure) \| "requests")>/g;

/** What is known outside of the types of src. */
export interface Outside {
  /** The name under which it is exported, if it is. */
  nameOf(symbol: ts.Symbol): string | undefined;
  /** What is exported in its place; itself where nothing is. */
  outside(symbol: ts.Symbol): ts.Symbol;
}

/** Types as the reference shows them: as they are written, without what only the compiler needs. */
export class TypeText {
  readonly #checker: ts.TypeChecker;
  readonly #known: Outside;

  constructor(checker: ts.TypeChecker, known: Outside) {
    this.#checker = checker;
    this.#known = known;
  }

  /** On one line. */
  of(node: ts.Node): string {
    return plain(this.#written(node)).replace(/^\| /, "");
  }

  /** Lines and comments as in the source. */
  withComments(node: ts.Node): string {
    return simple(this.#written(node));
  }

  /** `name(parameter: Type, options?: Type): Type`, on several lines where it is long. */
  signature(name: string, node: ts.SignatureDeclaration): string {
    const generic = (node.typeParameters ?? [])
      .map((each) => each.name.getText())
      .filter((each) => !/^(Name|Measure)$/.test(each));
    const parameters = node.parameters.map((each, i) => {
      const isOptional = each.initializer !== undefined || each.questionToken !== undefined;
      const given = ts.isObjectBindingPattern(each.name) ? `options${i > 1 ? i : ""}` : each.name.getText();
      const type =
        each.type === undefined
          ? this.#checker.typeToString(this.#checker.getTypeAtLocation(each))
          : this.of(each.type);
      return `${each.dotDotDotToken === undefined ? "" : "..."}${given}${isOptional ? "?" : ""}: ${type}`;
    });
    const head = `${name}${generic.length === 0 ? "" : `<${generic.join(", ")}>`}`;
    const answer = node.type === undefined ? "" : `: ${this.of(node.type)}`;
    const line = `${head}(${parameters.join(", ")})${answer}`;
    return line.length <= 110 ? line : `${head}(\n  ${parameters.join(",\n  ")},\n)${answer}`;
  }

  /** `(typeof LIST)[number]`: the words of the list. The program has no library with arrays, and takes them for `any`. */
  wordsIn(node: ts.TypeNode): string | undefined {
    const of = ts.isIndexedAccessTypeNode(node) ? node.objectType : undefined;
    const query = of !== undefined && ts.isParenthesizedTypeNode(of) ? of.type : of;
    if (query === undefined || !ts.isTypeQueryNode(query)) return undefined;
    const list = this.#checker.getSymbolAtLocation(query.exprName)?.valueDeclaration;
    const value = list !== undefined && ts.isVariableDeclaration(list) ? list.initializer : undefined;
    const array = value !== undefined && ts.isAsExpression(value) ? value.expression : undefined;
    if (array === undefined || !ts.isArrayLiteralExpression(array)) return undefined;
    return array.elements.map((each) => each.getText()).join(" | ");
  }

  /** The exported types that are named in it. */
  mentionsOf(node: ts.Node): readonly ts.Symbol[] {
    const found = new Set<ts.Symbol>();
    const visit = (each: ts.Node): void => {
      if (ts.isTypeReferenceNode(each)) {
        const symbol = this.#symbolOf(each);
        if (symbol !== undefined && this.#known.nameOf(symbol) !== undefined) found.add(symbol);
      }
      each.forEachChild(visit);
    };
    visit(node);
    return [...found];
  }

  /** The text of the source, but for types that are called otherwise outside, or have no name there. */
  #written(node: ts.Node): string {
    const start = node.getStart();
    let text = node.getText();
    const replaced: { from: number; to: number; by: string }[] = [];
    const visit = (each: ts.Node): void => {
      const by = ts.isTypeReferenceNode(each) ? this.#outside(each) : this.#member(each);
      if (by === undefined) each.forEachChild(visit);
      else replaced.push({ from: each.getStart() - start, to: each.getEnd() - start, by });
    };
    visit(node);
    for (const { from, to, by } of replaced.reverse()) text = text.slice(0, from) + by + text.slice(to);
    return text;
  }

  #outside(node: ts.TypeReferenceNode): string | undefined {
    const symbol = this.#symbolOf(node);
    if (symbol === undefined) return undefined;
    const name = node.typeName.getText();
    const outside = this.#known.nameOf(symbol);
    // With type arguments it stays as it is written: names of measures are cut off later.
    if (outside !== undefined) return outside === name ? undefined : outside;
    const [inner] = node.typeArguments ?? [];
    if (name === "MaybePromise" && inner !== undefined) return `${this.of(inner)} | Promise<${this.of(inner)}>`;
    if (name === "SdkClient") return "DynamoDBClient";
    const alias = symbol.declarations?.find(ts.isTypeAliasDeclaration);
    return alias !== undefined && alias.typeParameters === undefined && isShort(alias.type)
      ? this.of(alias.type)
      : undefined;
  }

  /** `Clock["sleep"]`: the function itself. */
  #member(node: ts.Node): string | undefined {
    if (!ts.isIndexedAccessTypeNode(node)) return undefined;
    const type = this.#checker.getTypeAtLocation(node);
    const method = type.symbol?.declarations?.find(ts.isMethodSignature);
    if (method !== undefined) return this.signature("", method).replace("): ", ") => ");
    return this.#checker.typeToString(type, undefined, ts.TypeFormatFlags.NoTruncation);
  }

  #symbolOf({ typeName }: ts.TypeReferenceNode): ts.Symbol | undefined {
    const symbol = this.#checker.getSymbolAtLocation(typeName);
    if (symbol === undefined) return undefined;
    return this.#known.outside(symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol);
  }
}

/** Another name for one type, or a choice of words: shown in place of its name. */
function isShort(type: ts.TypeNode): boolean {
  if (ts.isUnionTypeNode(type)) return type.types.every(ts.isLiteralTypeNode);
  return ts.isTypeReferenceNode(type);
}

function simple(text: string): string {
  return text
    .replace(/\breadonly /g, "")
    .replace(/\bReadonly<((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>/g, "$1")
    .replace(NAMES, "")
    .replace(/\b(?:Name|Measure)\b(?=[;,)\]]|$)/g, "string");
}

function plain(text: string): string {
  return simple(text.replace(/\/\*\*[\s\S]*?\*\//g, ""))
    .replace(/\s+/g, " ")
    .replace(/; \}/g, " }")
    .replace(/([(<]) | ([)>])/g, "$1$2")
    .trim();
}

// Draws the OpenAPI document. Everything from the document is put in as text, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  for (const child of children.flat()) {
    if (child) node.append(child);
  }
  return node;
}

// Text in which `what is said to a machine` stands between backticks.
function prose(text) {
  return (text || "").split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));
}

function schemaName(reference) {
  return reference.split("/").pop();
}

// A short name for a schema, with a link when it has a section of its own.
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schemaName(schema.$ref);
    return element("a", { href: "#schema-" + name }, name);
  }
  const parts = schema.oneOf || schema.anyOf || schema.allOf;
  if (parts) {
    const separator = schema.allOf ? " & " : " | ";
    return element("span", {}, parts.flatMap((part, i) => (i ? [separator, typeOf(part)] : [typeOf(part)])));
  }
  if (schema.type === "array") return element("span", {}, "list of ", typeOf(schema.items));
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "any";
  return schema.format ? type + " (" + schema.format + ")" : type;
}

function table(rows) {
  const body = rows.map(([name, type, text]) =>
    element("tr", {}, element("td", {}, element("code", {}, name)), element("td", {}, type), element("td", {}, prose(text))),
  );
  return element("table", {}, element("tbody", {}, body));
}

function fields(schema) {
  const required = schema.required || [];
  return Object.entries(schema.properties || {}).map(([name, field]) => [
    required.includes(name) ? name + " *" : name,
    typeOf(field),
    field.description,
  ]);
}

function examplesOf(content) {
  const values = [];
  if (content.example !== undefined) values.push(content.example);
  for (const example of Object.values(content.examples || {})) values.push(example.value);
  return values.map((value) => element("pre", {}, JSON.stringify(value, null, 2)));
}

function bodyOf(operation) {
  const content = operation.requestBody && operation.requestBody.content;
  return Object.values(content || {}).map((kind) =>
    element("div", {}, element("h4", {}, "Body: ", typeOf(kind.schema)), examplesOf(kind)),
  );
}

function answersOf(operation) {
  return Object.entries(operation.responses || {}).map(([status, answer]) => {
    // A refusal is a reference to the one form that all of them have.
    const kinds = answer.$ref ? [{ schema: answer }] : Object.values(answer.content || {});
    return [status, kinds.length ? typeOf(kinds[0].schema) : "", answer.description];
  });
}

function operationNode(method, path, operation) {
  const parameters = (operation.parameters || []).map((p) => [
    p.required ? p.name + " *" : p.name,
    element("span", {}, typeOf(p.schema), " in the " + p.in),
    p.description,
  ]);
  return element(
    "details",
    { id: operation.operationId },
    element("summary", {}, element("b", { class: method }, method.toUpperCase()), " ", element("code", {}, path), " ", prose(operation.summary)),
    element("p", {}, prose(operation.description)),
    parameters.length ? table(parameters) : null,
    bodyOf(operation),
    element("h4", {}, "Answers"),
    table(answersOf(operation)),
  );
}

function schemaNode(name, schema) {
  const variants = schema.oneOf || schema.anyOf || [];
  return element(
    "details",
    { id: "schema-" + name },
    element("summary", {}, element("code", {}, name), " ", prose(schema.description)),
    schema.enum ? element("p", {}, typeOf(schema)) : null,
    table(fields(schema)),
    variants.map((variant) => (variant.properties ? table(fields(variant)) : element("p", {}, typeOf(variant)))),
  );
}

function draw(api) {
  document.getElementById("title").textContent = api.info.title + " " + api.info.version;
  document.getElementById("intro").textContent = api.info.description || "";
  const operations = document.getElementById("operations");
  const sections = new Map();
  for (const tag of api.tags || []) {
    const section = element("section", { id: "tag-" + tag.name }, element("h2", {}, tag.name), element("p", {}, prose(tag.description)));
    sections.set(tag.name, section);
    operations.append(section);
    document.getElementById("index").append(element("a", { href: "#tag-" + tag.name }, tag.name), " ");
  }
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((m) => item[m])) {
      const section = sections.get((item[method].tags || [])[0]) || operations;
      section.append(operationNode(method, path, item[method]));
    }
  }
  const schemas = document.getElementById("schemas");
  for (const [name, schema] of Object.entries(api.components.schemas)) schemas.append(schemaNode(name, schema));
  openTarget();
}

// A link to a folded section opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
}

window.addEventListener("hashchange", openTarget);
fetch("/openapi.json")
  .then((answer) => answer.json())
  .then(draw)
  .catch((error) => {
    document.getElementById("intro").textContent = "The document could not be read: " + error;
  });

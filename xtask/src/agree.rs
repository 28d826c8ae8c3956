//! Documents that say what the code says, in a picture or a table made by hand: the tests here read
//! both and go red when either changes alone.

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    fn read(path: &str) -> String {
        let path = crate::root().unwrap().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// `scheduled --> ready: due`, for each row of `JobState::TRANSITIONS`.
    fn transitions_of_code(text: &str) -> BTreeSet<String> {
        let (_, table) = text.split_once("TRANSITIONS: ").expect("the table is there");
        let (table, _) = table.split_once("];").expect("the table ends");
        let squeezed: String = table.split_whitespace().collect();
        squeezed
            .split("(JobState::")
            .skip(1)
            .filter_map(|row| {
                let (from, rest) = row.split_once(",JobState::")?;
                let (to, rest) = rest.split_once(",\"")?;
                let word = rest.split('"').next()?;
                Some(format!("{} --> {}: {word}", from.to_lowercase(), to.to_lowercase()))
            })
            .collect()
    }

    /// The arrows of the diagram; those from and to `[*]` are where a life begins and ends.
    fn transitions_of_diagram(text: &str) -> BTreeSet<String> {
        let (_, diagram) = text.split_once("```mermaid").expect("the diagram is there");
        let (diagram, _) = diagram.split_once("```").expect("the diagram ends");
        let arrows = diagram.lines().map(str::trim).filter(|line| line.contains("-->"));
        arrows.filter(|line| !line.contains("[*]")).map(str::to_string).collect()
    }

    #[test]
    fn the_lifecycle_diagram_is_the_transition_table() {
        let code = transitions_of_code(&read("crates/core/src/job.rs"));
        let diagram = transitions_of_diagram(&read("docs/internals/lifecycle.md"));
        assert!(code.len() > 10, "the table was not understood: {code:?}");
        assert_eq!(code, diagram);
    }

    #[test]
    fn a_changed_table_or_diagram_is_noticed() {
        let code = |word: &str| {
            transitions_of_code(&format!(
                "TRANSITIONS: [x; 1] = [(JobState::Scheduled,\n JobState::Ready, \"{word}\")];"
            ))
        };
        let diagram = |word: &str| {
            transitions_of_diagram(&format!(
                "```mermaid\n[*] --> scheduled\nscheduled --> ready: {word}\n```"
            ))
        };
        assert_eq!(code("due"), diagram("due"));
        assert_ne!(code("due"), diagram("ready"));
    }

    /// `S1 durable`, for each promise: in the code `- **S1 durable** — …`, in the document
    /// `### S1 durable`.
    fn promises(text: &str, before: &str, after: &str) -> BTreeSet<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(before));
        lines.filter_map(|line| line.split(after).next()).map(str::to_string).collect()
    }

    #[test]
    fn the_store_contract_lists_the_promises_of_the_trait() {
        let code = promises(&read("crates/store/src/lib.rs"), "//! - **", "**");
        let document = promises(&read("docs/internals/store-contract.md"), "### ", "\n");
        assert!(code.iter().any(|promise| promise == "S1 durable"), "{code:?}");
        assert_eq!(code, document);
    }

    /// The paths that the server answers, with `{name}` for what varies.
    fn routes() -> Vec<String> {
        let dir = crate::root().unwrap().join("crates/server/src/http");
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let quoted = text.split("path = \"/").skip(1).filter_map(|s| s.split('"').next());
                found.extend(quoted.map(str::to_string));
            }
        }
        found
    }

    fn matches(route: &str, path: &str) -> bool {
        let (route, path) = (route.split('/'), path.split('/'));
        let varies = |part: &str| part.starts_with('{');
        route.clone().count() == path.clone().count()
            && route.zip(path).all(|(expected, given)| varies(expected) || expected == given)
    }

    #[test]
    fn the_tour_visits_paths_that_exist() {
        let routes = routes();
        for document in ["README.md", "docs/guides/http.md", "docs/guides/schedules.md"] {
            let text = read(document);
            for rest in text.split("http://127.0.0.1:7070/").skip(1) {
                let end = |c: char| c.is_whitespace() || "?'\">)`".contains(c);
                let path = rest.split(end).next().unwrap_or_default();
                let known = routes.iter().any(|route| matches(route, path));
                assert!(known, "{document} speaks of /{path}, which the server does not know");
            }
        }
    }

    #[test]
    fn the_code_map_names_every_file_of_the_shard() {
        let map = read("ARCHITECTURE.md");
        let dir = crate::root().unwrap().join("crates/core/src/shard");
        let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        let files: Vec<&String> =
            names.iter().filter(|name| crate::tidy::has_extension(name, "rs")).collect();
        assert!(files.len() > 10, "the files were not found: {names:?}");
        for file in files {
            let named = map.contains(&format!("`shard/{file}`"));
            assert!(named, "ARCHITECTURE.md does not say what crates/core/src/shard/{file} holds");
        }
    }

    /// The parts of a document that are code of this language: functions, parted by empty lines.
    fn shown<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
        let opening = format!("```{language}\n");
        let blocks = document.split(opening.as_str()).skip(1);
        let blocks = blocks.filter_map(|rest| rest.split("\n```").next());
        blocks.flat_map(|block| block.split("\n\n")).map(|part| part.trim_matches('\n')).collect()
    }

    #[test]
    fn the_guide_to_transactions_shows_the_programs_that_are_run() {
        let guide = read("docs/guides/transactions.md");
        let programs = [
            ("python", "python/orders.py"),
            ("go", "go/main.go"),
            ("javascript", "javascript/orders.mjs"),
            ("rust", "rust/main.rs"),
        ];
        for (language, file) in programs {
            // Go is written with tabs, documents are not.
            let program = read(&format!("examples/transactions/{file}")).replace('\t', "    ");
            let parts = shown(&guide, language);
            assert!(parts.len() >= 2, "{language}: both functions are shown: {parts:?}");
            for part in parts {
                assert!(program.contains(part), "{file} is not as the guide shows it:\n{part}");
            }
        }
    }
}

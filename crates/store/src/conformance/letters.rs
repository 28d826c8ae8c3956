//! S13: what others write into the store is read until it is taken, in the commit of what came of
//! it.

use std::sync::Arc;

use hence_core::id::LetterId;

use super::build::{at, job, put};
use super::fixture::{Fixture, SHARD};
use super::table;
use crate::{Change, ErrorKind, Letter};

table! { "letters":
    S13 inbox an_empty_inbox_has_no_letters;
    S13 inbox letters_are_read_by_number_until_they_are_taken;
    S13 inbox pages_go_on_after_a_letter;
    S13 inbox a_letter_comes_back_byte_by_byte;
    S13 inbox a_refused_letter_is_taken_as_well;
    S13 inbox a_letter_leaves_with_its_commit_or_not_at_all;
    S13 inbox a_repeated_commit_takes_a_letter_once;
    S13 inbox whoever_waits_hears_of_a_letter;
    S13 inbox_and_persistence letters_outlive_the_process;
}

const NONE: LetterId = LetterId(0);

fn taken(id: LetterId) -> Change {
    Change::LetterTaken { id, refused: None }
}

async fn read(fixture: &Fixture) -> Vec<Letter> {
    fixture.store().letters(NONE, 100).await.expect("read")
}

async fn read_ids(fixture: &Fixture) -> Vec<LetterId> {
    read(fixture).await.iter().map(|letter| letter.id).collect()
}

async fn write(fixture: &Fixture, body: &'static str) -> LetterId {
    fixture.harness().write_letter(body).expect("a harness that writes").await
}

async fn an_empty_inbox_has_no_letters(fixture: Fixture) {
    assert_eq!(read(&fixture).await, []);
}

async fn letters_are_read_by_number_until_they_are_taken(mut fixture: Fixture) {
    let (a, b) = (write(&fixture, "a").await, write(&fixture, "b").await);
    assert!(NONE < a && a < b, "numbers grow: {a:?}, {b:?}");
    assert_eq!(read_ids(&fixture).await, [a, b]);
    assert_eq!(read_ids(&fixture).await, [a, b], "reading takes nothing");
    fixture.commit(vec![put(&job(1)), taken(a)]).await;
    assert_eq!(read_ids(&fixture).await, [b]);
    fixture.commit(vec![taken(b)]).await;
    assert_eq!(read(&fixture).await, []);
    let c = write(&fixture, "c").await;
    assert!(b < c, "a number is used once");
}

async fn pages_go_on_after_a_letter(fixture: Fixture) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(write(&fixture, "x").await);
    }
    let page = fixture.store().letters(NONE, 2).await.expect("read");
    assert_eq!(page.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids[..2]);
    let page = fixture.store().letters(ids[1], 100).await.expect("read");
    assert_eq!(page.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids[2..]);
}

async fn a_letter_comes_back_byte_by_byte(fixture: Fixture) {
    const BODY: &str = r#"{"job": {"payload": "¿ \u0041 \\ ' \" 雪 \n"}}"#;
    write(&fixture, BODY).await;
    assert_eq!(read(&fixture).await[0].body, BODY);
}

async fn a_refused_letter_is_taken_as_well(mut fixture: Fixture) {
    let id = write(&fixture, "nonsense").await;
    let refused = Some(Arc::from("it makes no sense"));
    fixture.commit(vec![Change::LetterTaken { id, refused }]).await;
    assert_eq!(read(&fixture).await, []);
}

async fn a_letter_leaves_with_its_commit_or_not_at_all(mut fixture: Fixture) {
    let id = write(&fixture, "a").await;
    let batch = fixture.batch(SHARD, vec![put(&job(1)), taken(id)]).await;
    // Somebody else owns the shard now.
    fixture.acquire(SHARD).await;
    fixture.refused(vec![batch], ErrorKind::Fenced).await;
    assert_eq!(read_ids(&fixture).await, [id]);
    assert_eq!(fixture.get(&job(1).name, at(0)).await, None);
}

async fn a_repeated_commit_takes_a_letter_once(mut fixture: Fixture) {
    let id = write(&fixture, "a").await;
    let batch = fixture.batch(SHARD, vec![taken(id)]).await;
    fixture.send(vec![batch.clone()]).await.expect("committed");
    fixture.send(vec![batch]).await.expect("acknowledged again");
    assert_eq!(read(&fixture).await, []);
}

async fn whoever_waits_hears_of_a_letter(fixture: Fixture) {
    let store = fixture.store();
    // The first was there before; the second is written before anybody looks at the answer.
    for body in ["a", "b"] {
        let waiting = store.await_letters();
        let id = write(&fixture, body).await;
        waiting.await.expect("told");
        assert_eq!(read_ids(&fixture).await.last(), Some(&id));
    }
}

async fn letters_outlive_the_process(mut fixture: Fixture) {
    let id = write(&fixture, "a").await;
    fixture.reopen().await;
    assert_eq!(read_ids(&fixture).await, [id]);
}

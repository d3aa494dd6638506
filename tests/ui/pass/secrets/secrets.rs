use queue::{Job, JobContext, State, job};

#[derive(Clone, serde::Serialize, serde::Deserialize, Debug)]
pub struct Card {
    pan: String,
}

/// Pays.
#[job(unique(by = order))]
pub async fn charge(
    ctx: &JobContext,
    /// The card.
    #[secret]
    #[serde(alias = "credit_card")]
    card: &Card,
    #[secret] pin: Option<&str>,
    #[allow(unused_variables)]
    #[secret]
    r#type: u32,
    State(gateway): State<String>,
    order: i64,
) -> Result<(), String> {
    let _ = (ctx, card, pin, gateway, order);
    Ok(())
}

/// Its serde attributes need serde's own derives.
#[job]
#[serde(rename_all = "camelCase")]
pub async fn sign_in(#[secret] pass_word: String, user_name: String) {
    let _ = (pass_word, user_name);
}

#[job]
pub async fn open(value: String) {
    let _ = value;
}

fn main() {
    assert_eq!(Charge::SECRETS, ["card", "credit_card", "pin", "type"]);
    assert_eq!(SignIn::SECRETS, ["passWord"]);
    assert!(Open::SECRETS.is_empty());
    let job = Charge::new(Card { pan: "4111".to_owned() }, "1234".to_owned(), 98765u32, 7);
    assert_eq!(format!("{job:?}"), "Charge { card: ••••, pin: ••••, type: ••••, order: 7 }");
    assert_eq!(format!("{:?}", SignIn::new("1234", "ada")), "SignIn { pass_word: ••••, user_name: \"ada\" }");
    let json = serde_json::to_string(&job).unwrap();
    assert_eq!(json, r#"{"card":{"pan":"4111"},"pin":"1234","type":98765,"order":7}"#);
    assert_eq!(serde_json::from_str::<Charge>(&json).unwrap().r#type, 98765);
}
